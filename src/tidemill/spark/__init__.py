"""`spark.read.format("tidemill")`.  Entrance: `spark.data_source`."""

"""The Spark data source, `spark.read.format("tidemill")`.  Entry point: `spark.data_source`."""

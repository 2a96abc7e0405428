"""Write a topic's new records to Parquet files.  Usage: python examples/stream_to_parquet.py TOPIC DIRECTORY"""

import os
import sys

from tidemill.spark import session

topic, directory = sys.argv[1:] if len(sys.argv) == 3 else sys.exit(__doc__)
spark = session.builder("stream to Parquet", master="local[2]").getOrCreate()
records = (
    spark.readStream.format("tidemill")
    .option("kafka.bootstrap.servers", os.environ.get("TIDEMILL_BOOTSTRAP", "127.0.0.1:9092"))
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .load()
)
query = (
    records.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "partition", "offset", "timestamp")
    .writeStream.format("parquet")
    .option("path", f"{directory}/records")
    .option("checkpointLocation", f"{directory}/checkpoint")  # a second run continues where the first one ended
    .trigger(availableNow=True)  # ends at what is there now; processingTime="10 seconds" continues
    .start()
)
query.awaitTermination()
spark.stop()

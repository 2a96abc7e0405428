"""A job that reads one topic and writes another.  The same program runs on every kind of Spark cluster.

spark-submit --master MASTER cluster_job.py BOOTSTRAP SOURCE TARGET
SPARK_REMOTE=sc://HOST:PORT python cluster_job.py BOOTSTRAP SOURCE TARGET
"""

import sys

from pyspark.sql import functions as f

from tidemill.spark import session


def main(bootstrap: str, source: str, target: str) -> None:
    spark = session.builder("cluster job").getOrCreate()
    read = (
        spark.read.format("tidemill")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("minPartitions", 4)
        .load()
    )
    rows = read.select("key", f.concat(f.upper(f.col("value").cast("string")), f.lit("!")).alias("value"))
    rows.write.format("tidemill").option("kafka.bootstrap.servers", bootstrap).option("topic", target).mode(
        "append"
    ).save()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""
Archive the classes that Spark loads, so that the Java processes of the tests start in half the time.

    python tools/spark_class_archive.py FILE

Java maps the archive (`-XX:SharedArchiveFile=FILE`) instead of reading, checking and parsing the classes of 250 jar
files.  An archive fits only the Java and the jar files that it was made with; Java ignores it otherwise.
`tests/java_options.py` uses it.  See "Class Data Sharing" in the guide of Java 17.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

JOB = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.range(10)
rows.mapInArrow(lambda batches: batches, rows.schema).groupBy().sum("id").collect()
spark.stop()
"""
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


def archive(file: Path) -> None:
    """Run a job of Spark, and write the archive of the classes that it loads to `file`."""
    import pyspark

    home = Path(pyspark.__file__).parent
    unfinished = file.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        job = Path(directory) / "job.py"
        job.write_text(JOB)
        configured = [word for key, value in SETTINGS.items() for word in ("--conf", f"{key}={value}")]
        java = ["--driver-java-options", f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={unfinished} -Xlog:disable"]
        finished = subprocess.run(
            [str(home / "bin" / "spark-submit"), "--master", "local[2]", *configured, *java, str(job)],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )
    if finished.returncode or not unfinished.exists():
        sys.exit(f"the classes of Spark could not be archived:\n{finished.stderr[-4_000:]}")
    unfinished.replace(file)


if __name__ == "__main__":
    archive(Path(sys.argv[1]))

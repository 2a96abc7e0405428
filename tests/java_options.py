"""Options for all Java processes that tests start, because most of what they do is to start."""

import sys
from pathlib import Path
from typing import Final

CLASS_ARCHIVE: Final = Path(sys.prefix) / "spark-classes.jsa"
"""The classes of Spark, ready to be mapped, written by `tools/spark_class_archive.py`; `make test` makes it."""

JAVA_OPTIONS: Final = (
    "-XX:TieredStopAtLevel=1",  # compile quickly
    # Java ignores an archive that is missing or does not fit, and would warn on stdout, which Spark's scripts parse.
    f"-XX:SharedArchiveFile={CLASS_ARCHIVE}",
    "-Xshare:auto",
    "-Xlog:disable",
)

"""Lists the files and reads their rows with Spark, in an order that a later run reproduces exactly."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

UNPARSED: Final = "_tidemill_unparsed"  # the text of a row that does not fit the schema; otherwise null
FILE, BLOCK, ROW = "_tidemill_file", "_tidemill_block", "_tidemill_row"
PLACE: Final = (FILE, BLOCK, ROW)
"""Columns that sort the rows in file order.  ROW is ascending within a file and block, with gaps."""

_LISTING: Final = ("pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter")
_GLOB: Final = re.compile(r"([\\\[\]{}*?,])")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A source file, with the attributes from the directory listing."""

    uri: str  # percent-encoded, as in Spark's column `_metadata.file_path`
    path: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFormat:
    """The format of the files, and the options of Spark's reader."""

    format: str
    reader: Mapping[str, str]

    def list(self, spark: "SparkSession", source: str) -> list[ListedFile]:
        """Return the files of a directory or glob, sorted by path.  Raise ValueError if there are none."""
        from pyspark.errors import AnalysisException
        from pyspark.sql import functions as f

        listing = {name: value for name, value in self.reader.items() if name.lower() in _LISTING}
        try:
            rows = (
                spark.read.format("binaryFile")
                .options(**listing)
                .load(source)
                .select("_metadata.file_path", "path", "length", f.unix_millis("modificationTime"))
                .collect()
            )
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            rows = []
        if not rows:
            raise ValueError(f"source={source} has no files: check the path")
        found = [ListedFile(uri=uri, path=path, size=size, modified_ms=ms) for uri, path, size, ms in rows]
        return sorted(found, key=lambda file: file.path)

    def infer(self, spark: "SparkSession", paths: Sequence[str]) -> "StructType":
        """Return the schema that Spark infers from the files, including the columns of `name=value` directories."""
        settings = {"inferSchema": "true"} if self.format == "csv" else {}
        return self._reader(spark, paths, settings).load(escaped(paths)).schema

    def with_directories(self, spark: "SparkSession", schema: "StructType", paths: Sequence[str]) -> "StructType":
        """Return the user's schema, extended by the columns of `name=value` directories that are missing from it."""
        return self._reader(spark, paths, {}).schema(schema).load(escaped(paths)).schema

    def rows(self, spark: "SparkSession", schema: "StructType", paths: Sequence[str]) -> "DataFrame":
        """Return the rows of the files with the columns of `schema`, UNPARSED, and PLACE."""
        from pyspark.sql import functions as f
        from pyspark.sql.types import StringType, StructField, StructType

        place = (
            f.col("_metadata.file_path").alias(FILE),
            f.col("_metadata.file_block_start").alias(BLOCK),
            f.monotonically_increasing_id().alias(ROW),
        )
        names = [f.col(f"`{name}`") for name in schema.names]
        if self.format == "parquet":
            unparsed = f.lit(None).cast("string").alias(UNPARSED)
            read = self._reader(spark, paths, {}).schema(schema).load(escaped(paths))
            return read.select(*names, unparsed, *place)
        wider = StructType([*schema.fields, StructField(UNPARSED, StringType())])
        settings = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": UNPARSED}
        read = self._reader(spark, paths, settings).schema(wider).load(escaped(paths))
        return read.select(*names, UNPARSED, *place)

    def _reader(self, spark: "SparkSession", paths: Sequence[str], settings: Mapping[str, str]) -> "DataFrameReader":
        reader = spark.read.format(self.format)
        if self.format == "csv":
            # Refuse a file whose header differs from the schema: its values would be read into the wrong columns.
            reader = reader.option("header", "true").option("enforceSchema", "false")
        reader = reader.options(**self.reader).options(**settings)
        base = base_path(paths)
        return reader if base is None else reader.option("basePath", base)


def base_path(paths: Sequence[str]) -> str | None:
    """Return the parent of the files' `name=value` directories; None if there are no such directories."""
    for path in paths:
        folders = path.split("/")[:-1]
        for index, folder in enumerate(folders):
            if re.fullmatch(r"[^=]+=.*", folder):
                return "/".join(folders[:index]) or "/"
    return None


def escaped(paths: Sequence[str]) -> list[str]:
    """Escape paths, so that Spark interprets none of their characters as a wildcard."""
    return [_GLOB.sub(r"\\\1", path) for path in paths]

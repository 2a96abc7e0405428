"""The data source class behind `format("tidemill")`.

Spark imports this module in every session that looks for Python data sources.  The readers and writers are therefore
imported only when a query reads from Tidemill or writes to it.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class TidemillDataSource(DataSource):
    """Batch and streaming reads and writes of topics, with the options and columns of Spark's Kafka connector."""

    @classmethod
    def name(cls) -> str:
        return "tidemill"

    def schema(self) -> "StructType":
        from tidemill.columnar import source_options
        from tidemill.spark import row_schema
        from tidemill.spark.plain_errors import plain_errors

        with plain_errors():
            return row_schema.full(
                has_headers=source_options.has_headers(self.options),
                has_letters=source_options.has_letters(self.options),
                is_share=source_options.is_share(self.options),
                is_waiting=source_options.is_waiting(self.options),
            )

    def reader(self, schema: "StructType") -> "DataSourceReader":
        from tidemill.columnar import source_options
        from tidemill.spark.batch_reader import BatchReader
        from tidemill.spark.plain_errors import plain_errors

        with plain_errors():
            return BatchReader(source_options.for_batch(self.options), schema)

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":  # noqa: N802 - Spark's name
        from tidemill.columnar import share_options, source_options
        from tidemill.spark.refused_stream import RefusedStream
        from tidemill.spark.share_stream_reader import ShareStreamReader
        from tidemill.spark.stream_reader import StreamReader

        try:
            if source_options.is_share(self.options):
                return ShareStreamReader(share_options.parse(self.options), schema)
            return StreamReader(source_options.for_stream(self.options), schema)
        except ValueError as error:
            return RefusedStream(error)

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        from tidemill.columnar import sink_options
        from tidemill.spark.batch_writer import BatchWriter
        from tidemill.spark.plain_errors import plain_errors

        with plain_errors():
            return BatchWriter(sink_options.parse(self.options), schema, is_overwriting=overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":  # noqa: N802 - Spark's name
        from tidemill.columnar import sink_options
        from tidemill.spark.plain_errors import plain_errors
        from tidemill.spark.stream_writer import StreamWriter

        with plain_errors():
            return StreamWriter(sink_options.parse(self.options), schema)

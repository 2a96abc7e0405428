"""`format("tidemill")`: Spark's words in, our readers out."""

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from tidemill.spark import row_schema, source_options


class TidemillDataSource(DataSource):
    """Batch and streaming reads of topics.  Options and columns are those of Spark's Kafka source."""

    @classmethod
    def name(cls) -> str:
        return "tidemill"

    def schema(self) -> StructType:
        return row_schema.full(has_headers=source_options.has_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        from tidemill.spark.batch_reader import BatchReader

        return BatchReader(source_options.for_batch(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from tidemill.spark.stream_reader import StreamReader

        return StreamReader(source_options.for_stream(self.options), schema)

"""Makes `format("tidemill")` available without registration: Spark searches all top-level modules named `pyspark_*`.

Spark imports this module in every session that uses a Python data source, so it must be cheap and must not fail.
Readers and the libraries they need are imported when a query uses them.
"""

from tidemill.spark.data_source import TidemillDataSource as DefaultSource

__all__ = ["DefaultSource"]

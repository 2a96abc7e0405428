"""Lets Spark find `format("tidemill")` without registration: it looks into every top-level module `pyspark_…`.

Spark imports this in each session that uses any Python source, so it costs next to nothing and never fails: the
readers, and the libraries that they need, are imported when a query asks for them.
"""

from tidemill.spark.data_source import TidemillDataSource as DefaultSource

__all__ = ["DefaultSource"]

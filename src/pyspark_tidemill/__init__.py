"""Lets Spark find `format("tidemill")` without registration: it looks into every top-level module `pyspark_…`.

Spark imports this in each session that uses any Python source, so it costs next to nothing and never fails; readers
and their libraries are imported when a query uses them.
"""

from pyspark.sql.datasource import DataSource


def _load() -> type[DataSource]:
    from tidemill.spark.data_source import TidemillDataSource

    return TidemillDataSource


__all__ = ["DefaultSource"]

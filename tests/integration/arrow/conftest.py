"""One broker that all tests of this folder share, as in the tests with Spark."""

from tests.integration.spark.conftest import bootstrap, make_topic, produce

__all__ = ["bootstrap", "make_topic", "produce"]

"""Brokers for the test suites of users: `pytest_plugins = ["tidemill.testing"]` in a conftest offers the fixtures."""

pytest_plugins = ["tidemill.testing.fixtures"]

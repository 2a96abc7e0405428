"""Checks the arguments that the functions of `queue` share, on the driver."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidemill.client import connection_settings
from tidemill.client.connection_settings import ConnectionSettings
from tidemill.columnar.acquired_rows import RECEIPT
from tidemill.columnar.option_values import kafka_keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def checked(rows: "DataFrame", options: Mapping[str, str]) -> ConnectionSettings:
    """
    Return the settings with which executors reach the brokers.  References to secrets are resolved there.

    Raise ValueError if the rows have no receipts, or if an option is missing or invalid.
    """
    if RECEIPT not in rows.columns:
        raise ValueError(
            f"the rows have no column {RECEIPT!r}: pass rows of a stream with mode=share, and keep that column"
        )
    keys = kafka_keys({name.lower(): str(value) for name, value in options.items()})
    if "bootstrap.servers" not in keys:
        raise ValueError("option 'kafka.bootstrap.servers' is missing: pass the options of the stream")
    return connection_settings.from_keys(keys).reached()

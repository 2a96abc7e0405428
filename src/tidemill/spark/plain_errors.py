"""Makes Spark show the message of a Tidemill error without the traceback of the Python worker."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tidemill.client.failures import ClientError
from tidemill.columnar.data_loss import DataLossError

OURS = (ClientError, DataLossError, ValueError)
"""Errors whose message states the fix, so that a traceback would only hide it."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """
    Hide the traceback if one of the errors in OURS ends this Python worker.

    A worker reads SPARK_HIDE_TRACEBACK when it reports the error that ends it, so no other error is affected.  In a
    process that is not a worker, nothing changes.
    """
    try:
        yield
    except OURS:
        if "SPARK_BUFFER_SIZE" in os.environ:  # set by Spark in the environment of its workers
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise

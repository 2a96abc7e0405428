"""Tidemill's own errors hide the traceback of the Spark worker that they end, and no other error does."""

import os

import pytest

from tidemill.client.failures import ClientError
from tidemill.spark.plain_errors import plain_errors

HIDING = "SPARK_HIDE_TRACEBACK"


@pytest.mark.parametrize(
    ("is_worker", "error", "is_hidden"),
    [(True, ClientError("a sentence"), True), (True, KeyError("a bug"), False), (False, ClientError("x"), False)],
)
def test_only_our_errors_in_workers_hide_the_traceback(monkeypatch, is_worker, error, is_hidden):
    """
    The traceback is hidden only in a worker, and only for errors whose message says what to do.
    """
    monkeypatch.setenv(HIDING, "")
    if is_worker:
        monkeypatch.setenv("SPARK_BUFFER_SIZE", "65536")
    else:
        monkeypatch.delenv("SPARK_BUFFER_SIZE", raising=False)

    with pytest.raises(type(error)), plain_errors():
        raise error

    assert is_hidden == bool(os.environ[HIDING])

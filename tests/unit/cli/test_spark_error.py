"""The message that a command shows for an error that Spark has wrapped."""

import pytest

from tidemill.cli.spark_error import sentence

TASK = """Job aborted due to stage failure: Task 1 in stage 3.0 failed 1 times, most recent failure: Lost task 1.0
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
tidemill.client.failures.UnknownTopic: topic 'flights' does not exist: create it

\tat org.apache.spark.api.python.BasePythonRunner
Driver stacktrace:"""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("until=0 is below 1: write at least 1", "until=0 is below 1: write at least 1"),
        ("[PYTHON_DATA_SOURCE_ERROR] Failed to plan: ValueError: a is wrong\n   SQLSTATE: 38000", "a is wrong"),
        (TASK, "topic 'flights' does not exist: create it"),
        ("[UNRESOLVED_COLUMN] No column x.\nSQLSTATE: 1\n'Project", "[UNRESOLVED_COLUMN] No column x."),
        ("NotAValueError: kept", "NotAValueError: kept"),
        ("", "RuntimeError"),
    ],
)
def test_the_sentence_of_our_error_is_shown(text: str, shown: str) -> None:
    """
    If Spark wraps an error of Tidemill, only the sentence of that error is shown; for any other error, the first line
    is shown.
    """
    assert shown == sentence(RuntimeError(text))

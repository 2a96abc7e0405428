"""How requests about topics end when the brokers do not respond, as when a majority of them is down."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidemill.cli.failure import ExitCode, Failed
from tidemill.cli.topic_admin import TopicAdmin


class Client:
    """A stand-in for confluent-kafka's admin client, whose descriptions of topics all come from one future."""

    def __init__(self, future: "Future[Any]") -> None:
        self._future = future

    def describe_topics(self, topics: Any, **_: Any) -> "dict[str, Future[Any]]":
        return {"orders": self._future}


@pytest.fixture
def future(monkeypatch: pytest.MonkeyPatch) -> "Future[Any]":
    """Return the future of a description; all timeouts of the commands are 0."""
    unresolved: Future[Any] = Future()
    monkeypatch.setattr("tidemill.cli.kafka.REQUEST_TIMEOUT_S", 0.0)
    monkeypatch.setattr("tidemill.cli.kafka.GRACE_S", 0.0)
    monkeypatch.setattr("tidemill.cli.topic_admin.REQUEST_TIMEOUT_S", 0.0)
    monkeypatch.setattr("tidemill.cli.topic_admin.client_config", lambda *_: {})
    monkeypatch.setattr("tidemill.cli.topic_admin.AdminClient", lambda _: Client(unresolved))
    return unresolved


def test_a_description_that_does_not_arrive_is_an_error_of_the_command(future: "Future[Any]") -> None:
    """
    If no description arrives in time, the command fails with an error that names the topic and the missing response,
    not with a traceback.
    """
    with pytest.raises(Failed, match="'orders': no response") as raised:
        TopicAdmin("127.0.0.1:9092").leaders_of("orders")

    assert ExitCode.NO_BROKER == raised.value.exit_code


def test_a_missing_topic_is_skipped_unless_it_is_required(future: "Future[Any]") -> None:
    """
    A topic that does not exist is left out of a list, because it may have been deleted between two requests of the
    command.  If the user has named the topic, it is an error.
    """
    future.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
    admin = TopicAdmin("127.0.0.1:9092")

    assert [] == admin.rows_of(["orders"], missing_is_failure=False)
    with pytest.raises(Failed, match="tidemill topics create"):
        admin.rows_of(["orders"], missing_is_failure=True)

"""The messages of refused requests, and of brokers that do not respond."""

import pytest
from confluent_kafka import KafkaError

from tidemill.cli.failure import ExitCode
from tidemill.cli.kafka import failed
from tidemill.cli.refusal import refusal


def test_a_subject_that_the_reason_names_is_not_repeated() -> None:
    """
    If the broker's message begins with the name of the topic, the command does not put the name in front of it again.
    """
    error = refusal("TOPIC_ALREADY_EXISTS", "topic 'orders'", "topic 'orders' already exists.")

    assert "topic 'orders' already exists; change it with `tidemill topics alter`, or delete it first" == error.message


@pytest.mark.parametrize("name", ["NOT_CONTROLLER", "COORDINATOR_NOT_AVAILABLE"])
def test_a_cluster_without_majority_is_named_as_a_cause(name: str) -> None:
    """
    The name of an error such as NOT_CONTROLLER does not tell an operator that a majority of the brokers may be down, so
    the message adds this cause.
    """
    error = refusal(name, "topic 'orders'", "Broker: Not controller for cluster")

    assert "a majority of the brokers may be down" in error.message


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._TIMED_OUT])
def test_a_broker_that_does_not_respond_is_not_said_to_be_missing(code: int) -> None:
    """
    If a broker stops responding, the message says that a majority must be up, and does not advise to start a broker:
    the command has connected before, and a broker without quorum contact closes connections.
    """
    error = failed(KafkaError(code), "topic 'orders'", "127.0.0.1:9092")

    assert error.exit_code == ExitCode.NO_BROKER
    assert error.message.startswith("no response from 127.0.0.1:9092 (topic 'orders': ")
    assert "a majority of them must be" in error.message

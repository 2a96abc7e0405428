"""Transactional requests are refused with an error that clients do not retry."""

import asyncio
import socket
import struct
import warnings

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TransactionalIdAuthorizationFailed
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.integration.clients.conftest import RunningBroker

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the library reads its schemas in a deprecated way
    import kafka
    from kafka.errors import TransactionalIdAuthorizationFailedError

SECONDS_MAX = 5.0
ADD_PARTITIONS_TO_TXN = 24


def with_confluent(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", "log_level": 0})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(4 * SECONDS_MAX)
    error = refused.value.args[0]
    assert (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, False) == (error.code(), error.retriable())


def with_aiokafka(bootstrap: str) -> None:
    async def begin() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="t")
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(TransactionalIdAuthorizationFailed):
        asyncio.run(asyncio.wait_for(begin(), 4 * SECONDS_MAX))


def with_kafka_python(bootstrap: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap, transactional_id="t", max_block_ms=int(4_000 * SECONDS_MAX)
    )
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        producer.init_transactions()
    producer.close(0)


@pytest.mark.parametrize("begin", [with_confluent, with_aiokafka, with_kafka_python])
def test_a_transactional_producer_is_refused_by_name(broker: RunningBroker, begin: object) -> None:
    """
    A transactional producer fails with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which clients do not retry.
    """
    assert callable(begin)

    begin(broker.bootstrap)


def test_a_transactional_request_ends_the_connection(broker: RunningBroker) -> None:
    """
    The broker closes a connection that sends a transactional request, because ApiVersions does not advertise the API.
    """
    host, _, port = broker.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS_MAX) as connection:
        connection.sendall(struct.pack(">ihhih", 10, ADD_PARTITIONS_TO_TXN, 0, 1, -1))

        assert b"" == connection.recv(1)

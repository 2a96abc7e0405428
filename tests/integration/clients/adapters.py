"""The client libraries with which the client contract is run, by name."""

from collections.abc import Callable

from tests.integration.clients.aiokafka_adapter import AiokafkaClient
from tests.integration.clients.client_port import Client
from tests.integration.clients.confluent_adapter import ConfluentClient

CLIENTS: dict[str, Callable[[str], Client]] = {
    ConfluentClient.name: ConfluentClient,
    AiokafkaClient.name: AiokafkaClient,
}


def connect(name: str, bootstrap: str) -> Client:
    return CLIENTS[name](bootstrap)

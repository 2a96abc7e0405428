"""Finds the HTTP addresses of a cluster's brokers, which each broker has in its configuration."""

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tidemill.sdk.kafka_settings import BOOTSTRAP, created
from tidemill.sdk.problems import BrokersUnavailable

ANSWER_S_MAX: Final = 5.0
LISTENER: Final = "tidemill.http.listener"
ADVERTISED: Final = "tidemill.http.advertised"


def http_addresses(settings: Mapping[str, object]) -> list[str]:
    """
    Return the URLs of the brokers' HTTP listeners, of a cluster that librdkafka's `settings` name.

    Raise BrokersUnavailable if no broker answers, or if the brokers are not Tidemill's, and ValueError if librdkafka
    refuses the settings.
    """
    bootstrap = settings[BOOTSTRAP]
    admin = created(AdminClient, settings, {"log_level": 2})
    try:
        brokers = admin.list_topics(timeout=ANSWER_S_MAX).brokers
    except KafkaException as error:
        raise BrokersUnavailable(
            f"bootstrap={bootstrap!r}: no broker answered within {ANSWER_S_MAX:.0f} s; is it running, and is this its "
            f"Kafka listener? ({error.args[0].str()})"
        ) from error
    asked = [ConfigResource(ResourceType.BROKER, str(broker_id)) for broker_id in brokers]
    # librdkafka takes one broker in a call, so the calls are begun together.
    answers = [(it, admin.describe_configs([it], request_timeout=ANSWER_S_MAX)[it]) for it in asked]
    found, problems = [], []
    for resource, answered in answers:
        try:
            configs = answered.result()
        except KafkaException as error:  # a broker that is down; another one may serve
            problems.append(f"broker {resource.name}: {error.args[0].str()}")
            continue
        if address := address_of(configs, brokers[int(resource.name)].host):
            found.append(f"http://{address}")
    if not found:
        reason = "; ".join(problems) or f"they have no {LISTENER} with a port"
        raise BrokersUnavailable(f"bootstrap={bootstrap!r}: the brokers named no HTTP listener: {reason}; give http=")
    return found


def address_of(configs: Mapping[str, Any], kafka_host: str) -> str | None:
    """
    Return the host and port of a broker's HTTP listener; a wildcard stands for the host of its Kafka listener.

    None means that the broker has none, or that it listens at any free port, which its configuration does not tell.
    """
    for name in (ADVERTISED, LISTENER):
        value = configs[name].value if name in configs else None
        if value and not value.endswith(":0"):
            host, _, port = value.rpartition(":")
            named = f"[{kafka_host}]" if ":" in kafka_host else kafka_host  # an address of IPv6
            return f"{named}:{port}" if _is_wildcard(host) else str(value)
    return None


def _is_wildcard(host: str) -> bool:
    return host.strip("[]") in ("", "0.0.0.0", "::")

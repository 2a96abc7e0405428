"""Checks that a topic's own min.insync.replicas does not exceed its replication factor.

A higher value is a mistake: a batch cannot have more copies than there are replicas.  Defaults are not checked; for
topics with fewer replicas, Produce waits for all replicas (`broker/handlers/produce`).
"""

from collections.abc import Mapping
from typing import Final

from tidemill.model import errors
from tidemill.model.errors import KafkaError

MIN_INSYNC: Final = "min.insync.replicas"


def check_min_insync(topic: str, settings: Mapping[str, str], replication_factor: int, *, is_new: bool = True) -> None:
    """Check the `settings` of one topic.  Raises KafkaError if min.insync.replicas exceeds the replication factor."""
    wanted = int(settings.get(MIN_INSYNC, "1"))
    if wanted <= replication_factor:
        return
    counted = "1 replica" if replication_factor == 1 else f"{replication_factor} replicas"
    more = f", or create it with replication factor {wanted}" if is_new else ""
    raise KafkaError(
        errors.INVALID_CONFIG,
        f"{MIN_INSYNC}={wanted} is refused: topic {topic!r} has {counted}; set {replication_factor} or less{more}",
    )


def replication_warning(topic: str, replication_factor: int) -> list[str]:
    if replication_factor != 2:
        return []
    return [
        f"topic {topic!r} has 2 replicas: a majority of two is both, so writes stop while either broker is down, and "
        "its records are lost with either disk; "
        "use replication factor 3 to tolerate the loss of one broker"
    ]

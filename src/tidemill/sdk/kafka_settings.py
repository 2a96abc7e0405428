"""Creates the clients of librdkafka, which checks its settings only then."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException

SILENT: Final = {"log_level": 0}
BOOTSTRAP: Final = "bootstrap.servers"
Client = TypeVar("Client")


def created(
    kind: Callable[[dict[str, object]], Client], settings: Mapping[str, object], defaults: Mapping[str, object]
) -> Client:
    """
    Return a client of this kind, such as `Producer`, with a user's settings, and with `defaults` for the others.

    Raise ValueError if librdkafka refuses them.  The error names the setting that is at fault, or all if it is not one
    of them alone: librdkafka may call it by another name, such as queue.buffering.max.ms for linger.ms.
    """
    try:
        return kind({**defaults, **settings})
    except KafkaException as error:
        problem = _problem(error)
        given = {name: value for name, value in settings.items() if name != BOOTSTRAP}
        named = [name for name, value in given.items() if _problem_of(kind, {name: value}) == problem] or [*given]
        raise ValueError(
            f"kafka: librdkafka refuses {', '.join(map(str, named))}: {problem}; mend or leave out the setting, "
            "librdkafka's CONFIGURATION.md lists all"
        ) from error


def _problem_of(kind: Callable[[dict[str, object]], Any], settings: Mapping[str, object]) -> str | None:
    """Return why librdkafka refuses these settings; None if it does not."""
    try:
        kind({**SILENT, **settings})
    except KafkaException as error:
        return _problem(error)
    return None


def _problem(error: KafkaException) -> str:
    return str(error.args[0].str()).strip()

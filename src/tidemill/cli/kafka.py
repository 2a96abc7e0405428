"""Configures confluent-kafka's clients for commands, and converts their errors."""

from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from tidemill.cli.bootstrap import check_reachable, no_response
from tidemill.cli.deadline import Deadline
from tidemill.cli.failure import Failed
from tidemill.cli.refusal import refusal
from tidemill.model import errors

REQUEST_TIMEOUT_S: Final = 30.0
GRACE_S: Final = 5.0  # lets confluent-kafka report its timeout first, with the results of the brokers that responded
T = TypeVar("T")


def client_config(bootstrap: str, deadline: Deadline | None = None, /, **more: Any) -> dict[str, Any]:
    """
    Check that a broker accepts connections before the deadline, and return librdkafka's properties for `bootstrap`.

    `log_level` 0 keeps librdkafka from writing to stderr.  Raise `Failed` with NO_BROKER.
    """
    check_reachable(bootstrap, deadline)
    return {"bootstrap.servers": bootstrap, "client.id": "tidemill", "log_level": 0, **more}


_NO_BROKER: Final = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE})


def failed(error: KafkaError, about: str, bootstrap: str) -> Failed:
    """Return the error for a failed request, whose subject is `about`; a lost broker has its own exit code."""
    if error.code() in _NO_BROKER:
        return no_response(bootstrap, f"{about}: {error.str()}")
    if error.code() == KafkaError._TIMED_OUT:
        return no_response(bootstrap, f"{about}: no response in time")
    return refusal(error_name(error), about, error.str())


def error_name(error: KafkaError) -> str:
    """Return Kafka's name for the error, or librdkafka's name for a local error, without the leading `_`."""
    code = error.code()
    return errors.name(code) if code > 0 else error.name().lstrip("_")


def awaited(future: "Future[T]", about: str, bootstrap: str, timeout_s: float | None = None) -> T:
    """
    Return the result of a request to which confluent-kafka applies `timeout_s`, by default REQUEST_TIMEOUT_S.

    Raise `Failed` if the request, whose subject is `about`, failed or timed out.
    """
    timeout_s = REQUEST_TIMEOUT_S if timeout_s is None else timeout_s
    try:
        return future.result(timeout=timeout_s + GRACE_S)
    except KafkaException as exception:
        raise failed(exception.args[0], about, bootstrap) from exception
    except TimeoutError as exception:
        raise no_response(bootstrap, f"{about}: no response in {timeout_s:g} s") from exception

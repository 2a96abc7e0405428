"""Asks the leader of a partition, and asks again while leaders move, unless a request may not be repeated."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from tidemill.http.v1.brokers import Brokers, Unreachable
from tidemill.http.v1.calls import Refused
from tidemill.http.v1.kafka_errors import RETRY_AFTER_S, check, without_leader
from tidemill.http.v1.retries import retried
from tidemill.metadata.image import Topic
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.wire.schema import Api, Message

MOVING: Final = frozenset({
    errors.NOT_LEADER_OR_FOLLOWER,
    errors.LEADER_NOT_AVAILABLE,
    errors.COORDINATOR_NOT_AVAILABLE,
    errors.COORDINATOR_LOAD_IN_PROGRESS,
    errors.NOT_COORDINATOR,
    errors.UNKNOWN_TOPIC_ID,
    errors.UNKNOWN_TOPIC_OR_PARTITION,
    errors.KAFKA_STORAGE_ERROR,
})  # fmt: skip
"""The errors of a leader or a coordinator that moves or fails, and of a broker that has not heard of the topic yet."""


class OutcomeUnknown(Refused):
    """A request that may not be repeated was sent, and it is not known whether it has had an effect."""

    def __init__(self, detail: str) -> None:
        name = errors.name(errors.REQUEST_TIMED_OUT)
        super().__init__(503, detail, retry_after_s=RETRY_AFTER_S, error=name)


async def ask_leader(
    brokers: Brokers,
    topic: Topic,
    number: int,
    api: Api,
    request: Message,
    about: str,
    ask: Callable[[BrokerId, Api, Message], Awaitable[Any]] | None = None,
    *,
    is_repeatable: bool = True,
) -> Any:
    """
    Return the response of the partition's leader.  Raise Refused; `about` is the subject of the request.  `ask` is how
    the leader is asked, by default `brokers.ask_listener`.  A request that is not repeatable is sent again only if no
    broker can have begun with it; otherwise, OutcomeUnknown is raised.
    """
    asked = brokers.ask_listener if ask is None else ask

    async def attempt() -> Any | None:
        place = brokers.place(topic, number)
        if place is None:
            return None
        try:
            response = await asked(place.leader, api, request)
        except Unreachable as lost:
            if is_repeatable or not lost.is_sent:
                return None
            raise OutcomeUnknown(f"{about[:300]}: it is not known whether the request had its effect: {lost}") from lost
        return None if response.error_code in MOVING else response

    response = await retried(attempt, lambda: without_leader(topic, number))
    if response.error_code == errors.REQUEST_TIMED_OUT and not is_repeatable:
        raise OutcomeUnknown(f"{about[:300]}: {response.error_message}")
    check(response.error_code, response.error_message, about)
    return response

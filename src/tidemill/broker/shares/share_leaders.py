"""Sends requests about the shares of many partitions to the leaders of these partitions."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from tidemill.broker.machine import Machine
from tidemill.broker.peers.cluster import Cluster
from tidemill.metadata.image import ClusterImage
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.topic import TopicId
from tidemill.shard.pending import Pending
from tidemill.wire.schema import Api, Message

RETRY_MS_MAX: Final = 3_000  # for how long leaders that move are asked again; longer than most elections
PAUSE_S: Final = 0.1
_LEADER_MOVED: Final = frozenset({errors.NOT_LEADER_OR_FOLLOWER, errors.LEADER_NOT_AVAILABLE})

PartitionKey = tuple[TopicId, int]


class Outcome(NamedTuple):
    """The response of one leader; None if there was none, or for partitions that have no leader."""

    partitions: Sequence[PartitionKey]
    response: Any | None


class ShareLeaders:
    def __init__(
        self, broker_id: BrokerId, machine: Machine, cluster: Cluster, image: Callable[[], ClusterImage]
    ) -> None:
        self._broker_id = broker_id
        self._machine = machine
        self._cluster = cluster
        self._image = image

    def ask(
        self,
        api: Api,
        partitions: Iterable[PartitionKey],
        request_for: Callable[[Sequence[PartitionKey]], Message],
        here: Callable[[Any], Pending[Any]],
    ) -> Pending[list[Outcome]]:
        """
        Send each leader one request about its partitions.  `here` handles the request about those that this broker
        leads.
        """
        by_leader: dict[BrokerId | None, list[PartitionKey]] = {}
        for key in partitions:
            by_leader.setdefault(self._leader_of(*key), []).append(key)
        pending: Pending[list[Outcome]] = Pending()
        outcomes: list[Outcome] = []

        def answered(asked: Sequence[PartitionKey], response: Any | None) -> None:
            outcomes.append(Outcome(asked, response))
            if len(outcomes) == len(by_leader):
                pending.complete(outcomes)

        if not by_leader:
            pending.complete(outcomes)
        for broker_id, asked in by_leader.items():
            if broker_id is None:
                answered(asked, None)
            elif broker_id == self._broker_id:
                here(request_for(asked)).then(partial(answered, asked))
            else:
                self._ask_other(broker_id, api, request_for(asked), partial(answered, asked))
        return pending

    def ask_patiently(
        self,
        api: Api,
        partitions: Iterable[PartitionKey],
        request_for: Callable[[Sequence[PartitionKey]], Message],
        here: Callable[[Any], Pending[Any]],
        answers_of: Callable[[Any], Sequence[Any]],
    ) -> Pending[dict[PartitionKey, Any]]:
        """
        Send requests as `ask` does, and send them again for the partitions whose leaders move, for up to RETRY_MS_MAX.

        `answers_of` returns the answers in a response, one for each partition, in the order of the request; each has an
        `error_code`.  The result has the last answer for each partition; none if its leader has never answered.
        """
        pending: Pending[dict[PartitionKey, Any]] = Pending()
        answers: dict[PartitionKey, Any] = {}
        until = self._machine.clock.monotonic_ms() + RETRY_MS_MAX

        def ask(keys: Sequence[PartitionKey]) -> None:
            self.ask(api, keys, request_for, here).then(answered)

        def answered(outcomes: Sequence[Outcome]) -> None:
            moved: list[PartitionKey] = []
            for keys, response in outcomes:
                if response is None:
                    moved += keys
                else:
                    found = dict(zip(keys, answers_of(response), strict=True))
                    answers.update(found)
                    moved += [key for key, answer in found.items() if answer.error_code in _LEADER_MOVED]
            if moved and self._machine.clock.monotonic_ms() < until:
                self._machine.call_later(PAUSE_S, partial(ask, moved))
            else:
                pending.complete(answers)

        ask(list(partitions))
        return pending

    def _ask_other(
        self, broker_id: BrokerId, api: Api, request: Message, answered: Callable[[Any | None], None]
    ) -> None:
        def received(outcome: Any) -> None:
            answered(outcome if isinstance(outcome, api.response) else None)

        known = self._image().brokers.get(broker_id)
        if known is None or not self._cluster.peers.ask(known.voter, api, request, received):
            answered(None)

    def _leader_of(self, topic_id: TopicId, number: int) -> BrokerId | None:
        topic = self._image().topic_by_id(topic_id)
        leader = None if topic is None else self._cluster.leader_of(topic, number)
        return None if leader is None else leader.broker_id

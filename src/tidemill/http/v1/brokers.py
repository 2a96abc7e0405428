"""Sends the requests of HTTP clients to the brokers that can answer them: this one, or another one over its peer link.

This is the only place that forwards them.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final, NamedTuple

from tidemill.broker.broker import Broker
from tidemill.broker.clients.pipelines import Pipelines
from tidemill.broker.connection.dispatch import HANDLERS
from tidemill.broker.coordinators.group_coordinator import GROUPS
from tidemill.broker.request.request_context import RequestContext
from tidemill.http.v1.listener_link import LinkLost, ListenerLinks
from tidemill.http.v1.silence import ended_by_silence
from tidemill.metadata.image import ClusterImage, Topic
from tidemill.metadata.metadata_records import HTTP_ENDPOINT, PEER_ENDPOINT
from tidemill.model.broker_id import BrokerId, broker_ids
from tidemill.model.topic_config import TopicConfig
from tidemill.shard.pending import Pending
from tidemill.wire.messages import fetch
from tidemill.wire.schema import Api, Message

REPEATABLE_S_MAX: Final = 5.0  # for a response: a frozen broker keeps its connections, while others lead meanwhile
FETCHES_MAX: Final = 8  # of one leader at the same time, of a megabyte each
TIMER_LISTS_MAX: Final = 2  # of one leader at the same time, of four megabytes each
DECODING_MAX: Final = 1  # batches that are decoded at the same time: more threads would only share one interpreter


class HttpCaller:
    """The `Caller` of a request that comes from an HTTP client."""

    listener = ""
    offered: Collection[int] = ()

    def __init__(self, peer: tuple[str, int]) -> None:
        self.peer = peer
        self.pipelines = Pipelines()

    def hold(self) -> None:
        """Do nothing, because an HTTP client's requests need no order."""

    def release(self) -> None:
        """Do nothing, because `hold` does nothing either."""

    def close(self) -> None:
        """Do nothing: only Produce with acks=0 closes its connection."""


class Unreachable(Exception):
    """A broker has not answered.  If the request was sent, it is not known whether it had an effect."""

    def __init__(self, problem: str, *, is_sent: bool) -> None:
        super().__init__(problem)
        self.is_sent = is_sent


class PartitionLeader(NamedTuple):
    """A partition and its leader."""

    topic: Topic
    partition: int
    leader: BrokerId


class Brokers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._links: dict[BrokerId, ListenerLinks] = {}
        self._background: set[asyncio.Task[Any]] = set()
        self._fetching: dict[BrokerId, asyncio.Semaphore] = {}  # by leader, so that one that hangs delays no others
        self._listing: dict[BrokerId, asyncio.Semaphore] = {}  # likewise
        self.decoding = asyncio.Semaphore(DECODING_MAX)  # bounds the memory of decompressed batches

    @property
    def broker_id(self) -> BrokerId:
        return self._broker.broker_id

    @property
    def image(self) -> ClusterImage:
        return self._broker.image

    def config_of(self, topic: Topic) -> TopicConfig:
        """Return the configuration of a topic, which says its kind, as this broker knows it."""
        return self._broker.configs.of(self.image, topic.name)

    def replicas(self, topic: Topic, partition: int) -> list[int]:
        """Return the ids of the brokers that have a replica of a partition, as planned."""
        shard_id = topic.shard_of(partition)
        shard = None if shard_id is None else self.image.shards.get(shard_id)
        return [] if shard is None else [*broker_ids(shard.replicas)]

    def place(self, topic: Topic, partition: int) -> PartitionLeader | None:
        """Return where a partition is led; None while no leader is known."""
        leader = self._broker.cluster.leader_of(topic, partition)
        return None if leader is None else PartitionLeader(topic, partition, leader.broker_id)

    def coordinator(self, group: str) -> BrokerId | None:
        """Return the broker that coordinates a group; None while it is not known, or if there has been no group yet."""
        groups = self._broker.coordinators.of(GROUPS)
        topic, number = groups.topic, groups.partition_of(group)
        leader = None if topic is None or number is None else self.place(topic, number)
        return None if leader is None else leader.leader

    def coordinators(self) -> frozenset[BrokerId] | None:
        """Return the brokers that coordinate groups: none if there has been no group yet; None if one is not known."""
        topic = self._broker.coordinators.of(GROUPS).topic
        places = [] if topic is None else [self.place(topic, number) for number in range(topic.partition_count)]
        leaders = [it.leader for it in places if it is not None]
        return frozenset(leaders) if len(leaders) == len(places) else None

    def random_number(self) -> int:
        """Return a random number from 1 to 2^63 - 1."""
        return max(int.from_bytes(self._broker.machine.entropy.random_bytes(8)) >> 1, 1)

    @property
    def wall_ms(self) -> int:
        return self._broker.clock.wall_ms()

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do some work after the request has ended.  If it fails because a broker is gone, so are its locks."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)  # the loop keeps no strong reference
        task.add_done_callback(self._background.discard)

    async def ask(
        self,
        broker_id: BrokerId,
        api: Api,
        request: Message,
        unwanted: Callable[[Any], None] | None = None,
        *,
        gone_s: float | None = None,
    ) -> Any:
        """
        Return a broker's response.  Raise Unreachable, also for another broker that has been silent for `gone_s` (see
        `ended_by_silence`).

        If this is cancelled or raises, a request to this broker is cancelled, too, but another broker completes it.
        `unwanted` is called with a response that comes nevertheless.
        """
        if broker_id == self.broker_id:
            return await self.ask_here(api, request, unwanted)
        known = self._broker.image.brokers.get(broker_id)
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def received(outcome: Any) -> None:
            if isinstance(getattr(outcome, "records", None), memoryview):
                outcome.records = bytes(outcome.records)  # the link uses its buffer again
            if not answered.done():
                answered.set_result(outcome)
            elif answered.cancelled():
                drop(outcome)

        def drop(outcome: Any) -> None:
            if unwanted is not None and isinstance(outcome, api.response):
                unwanted(outcome)

        if known is None or not self._broker.cluster.peers.ask(known.voter, api, request, received):
            raise Unreachable(f"broker {broker_id} cannot be reached", is_sent=False)
        try:
            async with asyncio.timeout(None) as limit:
                with ended_by_silence(limit, lambda: self._broker.cluster.is_up(broker_id), gone_s):
                    outcome = await _or_unwanted(answered, drop)
        except TimeoutError as error:
            raise Unreachable(f"broker {broker_id}: neither a response nor a heartbeat", is_sent=True) from error
        if not isinstance(outcome, api.response):
            raise Unreachable(f"broker {broker_id} has not answered", is_sent=True)
        return outcome

    async def ask_listener(
        self, broker_id: BrokerId, api: Api, request: Message, response_s: float | None = None
    ) -> Any:
        """
        Like `ask`, for a request of Kafka's protocol: another broker gets it at its Kafka listener, and is unreachable
        if it does not answer within `response_s`, by default a time that is long enough for any request, or becomes
        silent.
        """
        if broker_id == self.broker_id:
            return await self.ask_here(api, request)
        links = self._links.get(broker_id)
        if links is None:
            links = self._links[broker_id] = ListenerLinks(
                lambda: self._listener_of(broker_id), lambda: self._broker.cluster.is_up(broker_id)
            )
        try:
            return await links.ask(api, request, response_s)
        except LinkLost as lost:
            raise Unreachable(f"broker {broker_id}: {lost}", is_sent=lost.is_sent) from lost

    async def fetch(self, broker_id: BrokerId, request: fetch.Request) -> Any:
        """Like `ask_listener`, but requests that do not wait for records take turns: each may fill a large response."""
        response_s = request.max_wait_ms / 1_000 + REPEATABLE_S_MAX
        if request.max_wait_ms:
            return await self.ask_listener(broker_id, fetch.API, request, response_s)
        async with self._fetching.setdefault(broker_id, asyncio.Semaphore(FETCHES_MAX)):
            return await self.ask_listener(broker_id, fetch.API, request, response_s)

    async def list_timers(self, broker_id: BrokerId, api: Api, request: Message) -> Any:
        """Like `ask_listener`, for lists of records that wait: they take turns, because each may have megabytes."""
        async with self._listing.setdefault(broker_id, asyncio.Semaphore(TIMER_LISTS_MAX)):
            return await self.ask_listener(broker_id, api, request)

    def _listener_of(self, broker_id: BrokerId) -> tuple[str, int] | None:
        known = self.image.brokers.get(broker_id)
        for endpoint in () if known is None else known.endpoints:
            if endpoint.name not in (HTTP_ENDPOINT, PEER_ENDPOINT):
                return endpoint.host, endpoint.port
        return None

    async def ask_here(self, api: Api, request: Message, unwanted: Callable[[Any], None] | None = None) -> Any:
        """Return this broker's response; it forwards requests for the controller.  See `ask` for `unwanted`."""
        broker = self._broker
        context = RequestContext(broker, HttpCaller(("", 0)), api.versions[-1], None, broker.clock.wall_ms())
        outcome = HANDLERS[api.key](request, context)
        return await result_of(outcome, unwanted) if isinstance(outcome, Pending) else outcome


async def result_of(pending: Pending[Any], unwanted: Callable[[Any], None] | None = None) -> Any:
    """
    Return the value of `pending`.  If this is cancelled, so is `pending`; `unwanted` is called with a value that has
    just arrived.
    """
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def completed(value: Any) -> None:
        if not done.done():
            done.set_result(value)
        elif unwanted is not None:  # cancelled just now, before `pending.cancel` could be called
            unwanted(value)

    def failed(error: BaseException) -> None:
        if not done.done():
            done.set_exception(error)

    pending.then(completed, failed)
    try:
        return await _or_unwanted(done, unwanted)
    except asyncio.CancelledError:
        pending.cancel()
        raise


async def _or_unwanted(answered: "asyncio.Future[Any]", unwanted: Callable[[Any], None] | None) -> Any:
    """Return the result of a future, or call `unwanted` with it if this is cancelled when it has just arrived."""
    try:
        return await answered
    except asyncio.CancelledError:
        has_result = answered.done() and not answered.cancelled() and answered.exception() is None
        if has_result and unwanted is not None:
            unwanted(answered.result())
        raise

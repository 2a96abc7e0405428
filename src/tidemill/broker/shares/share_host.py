"""ShareHost: serves the records of the partitions that this broker leads to share groups.  The entry point.

    ShareFetch        acquires available records; the leases are in memory, and end with leadership
    acknowledgement ─▶ decision ─▶ SHARE row of the shard ─▶ committed ─▶ response

What is decided in one turn of the event loop about the shares of one shard becomes one row.  Rules and rows:
`docs/formats/shares.md`; requests: `docs/share-groups.md`.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol

from tidemill.broker.controller.metadata_freshness import MetadataFreshness
from tidemill.broker.coordinators.coordinator_host import CoordinatorHost
from tidemill.broker.coordinators.share_group_configs import ShareGroupConfigs
from tidemill.broker.leadership.leadership import leadership_problem
from tidemill.broker.peers.cluster import Cluster
from tidemill.broker.shards.shard_table import ShardTable
from tidemill.broker.shares.led_share import LedShare, ShareKey
from tidemill.broker.shares.letter_writer import LetterWriter, WritingBroker, has_dead_records
from tidemill.broker.shares.look_ahead_reader import LookAheadReader
from tidemill.broker.shares.removed_records import RemovedRecords
from tidemill.broker.shares.shard_proposals import ShardProposals
from tidemill.broker.shares.share_closings import ShareClosings
from tidemill.broker.shares.share_leaders import ShareLeaders
from tidemill.broker.shares.share_opener import ShareOpener
from tidemill.broker.shares.share_openings import Opened, ShareOpenings, shares_of
from tidemill.broker.shares.share_resets import ShareResets
from tidemill.metadata.image import ClusterImage
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.clock import Clock
from tidemill.model.config_resolution import broker_int
from tidemill.model.dead_letters import is_redrive
from tidemill.model.errors import KafkaError
from tidemill.model.shard import ShardId
from tidemill.model.topic import METADATA_TOPIC
from tidemill.peer import share_close
from tidemill.shard.partition import Partition
from tidemill.shard.pending import Pending
from tidemill.shard.shard import Shard
from tidemill.share.acknowledgement import AcknowledgementBatch, AcknowledgementRefused, acknowledged_ranges
from tidemill.share.claim import Acquired
from tidemill.share.leases import Leases
from tidemill.share.lone_member import consumer_of
from tidemill.share.record_status import Run
from tidemill.share.share import Removed, Share
from tidemill.share.share_row import CloseShare
from tidemill.share.share_session import ShareSession, ShareSessions
from tidemill.share.share_settings import REDRIVE, Mode, ShareSettings, settings_from
from tidemill.share.share_waiters import ShareWaiters
from tidemill.telemetry.metrics import Metrics

RANDOM_BYTES: Final = 6

Acknowledged = Callable[[int, str | None], None]
"""Takes the error code and the message of the acknowledgements of one partition."""


class WaitingFetch(Hashable, Protocol):
    """A ShareFetch that waits for records."""

    @property
    def member(self) -> str:
        """The consumer that has sent the fetch."""
        ...

    def evaluate(self) -> None:
        """Look for records; then call `ShareHost.finish` or `ShareHost.keep_waiting`."""
        ...


class SharingBroker(WritingBroker, Protocol):
    """The part of the broker that share groups use."""

    broker_id: BrokerId
    shard_table: ShardTable
    cluster: Cluster
    coordinators: CoordinatorHost
    metrics: Metrics

    def storage_problem(self) -> str | None:
        """Return why appends are refused now; None if they are accepted."""
        ...

    def read_failed(self, partition: Partition, error: Exception) -> int:
        """Return the error code for a failed read."""
        ...

    def missing_partition(self, topic: str, topic_id: bytes, number: int) -> int:
        """Return the error code for a partition that has no replica on this broker."""
        ...


class ShareHost:
    def __init__(self, broker: SharingBroker, stall_tolerant_clock: Clock) -> None:
        self._broker = broker
        self._machine = broker.machine
        self._lock_clock = stall_tolerant_clock  # a lock does not expire while this process cannot read requests
        self.sessions = ShareSessions(broker_int(broker.layers, "group.share.max.share.sessions"))
        self.configs = ShareGroupConfigs(lambda: broker.image, lambda: broker.layers)
        self.opener = ShareOpener(
            broker.broker_id,
            broker.coordinators,
            broker.cluster,
            lambda: broker.image,
            MetadataFreshness(broker.machine, lambda: broker.image, broker.controller_client),
        )
        self._openings = ShareOpenings(broker.machine, self.opener, self._proposals_of, self.wake)
        self.leaders = ShareLeaders(broker.broker_id, broker.machine, broker.cluster, lambda: broker.image)
        self._closings = ShareClosings(
            broker.coordinators, self.leaders, lambda: broker.image, broker.machine.clock, self.close
        )
        self._removed_records = RemovedRecords(broker.machine, self._records_removed)
        self.resets = ShareResets(self._writable, self.led, self._proposals_of, self.wake)
        self.letters = LetterWriter(broker, self.leaders, self.configs, self._proposals_of, self.wake)
        self._waiters: ShareWaiters[WaitingFetch, ShareKey] = ShareWaiters()
        self._look_aheads = LookAheadReader(
            broker.machine,
            lambda led: self._led.get(led.key) is led,
            lambda led: self.wake(led.key),
            broker.read_failed,
        )
        self._led: dict[ShareKey, LedShare] = {}
        self._served_since: dict[ShardId, int] = {}  # when this broker began to lead a shard, by the clock for locks
        self._proposals: dict[ShardId, ShardProposals] = {}
        self._moved: dict[ShareKey, None] = {}  # shares with a new high watermark, for which a fetch waits

    @property
    def lock_now(self) -> int:
        """The time for locks, in ms."""
        return self._lock_clock.monotonic_ms()

    @property
    def wall_ms(self) -> int:
        return self._machine.clock.wall_ms()

    def append_time(self, partition: Partition) -> int:
        """
        The time from which the delay of a record counts: not before the last append, so that a leader whose clock is
        behind that of its predecessor does not shorten delays.
        """
        return partition.shard.append_time(self.wall_ms)

    # Shares of this broker.

    def partition(self, key: ShareKey) -> Partition:
        """Return the partition of a share if this broker serves it.  Raise KafkaError otherwise."""
        table = self._broker.shard_table
        name = table.name_of(key.topic_id)
        partition = None if name is None else table.partition(name, key.partition)
        if name == METADATA_TOPIC:  # the state of a group would enter the log of the controller
            raise KafkaError(errors.TOPIC_AUTHORIZATION_FAILED, f"topic {name} is for brokers only; use another topic")
        if partition is None:
            code = self._broker.missing_partition("", key.topic_id, key.partition)
        else:
            code = leadership_problem(partition, -1)
            if not code:
                return partition
        raise KafkaError(code, f"partition {key.partition} of {name or key.topic_id.hex()} is not served here")

    def share(
        self, key: ShareKey, partition: Partition, *, may_create: bool = False, then: Opened | None = None
    ) -> LedShare | None:
        """
        Return a share of a partition that this broker serves.  If it is not open yet, begin to open it, and call `then`
        when this has ended.  `may_create`: create the group if it does not exist.
        """
        share = shares_of(partition).of_group(key.group)
        led = self._led.get(key)
        if led is not None and led.share is share and led.partition is partition:
            led.leases.start_moved()  # retention may have moved the start
            self._look_aheads.extend(led)
            return led
        if led is not None:
            self._forget(led)
        if share is None:
            self._openings.begin(key, partition, may_create=may_create, then=then)
            return None
        return self._lead(key, partition, share)

    def shards_with_locks(self) -> list[ShardId]:
        """Return the shards with records that consumers hold."""
        return sorted({led.partition.shard.shard_id for led in self._led.values() if led.leases.held_count})

    @property
    def led_shares(self) -> Collection[LedShare]:
        """The shares for which this broker has leases."""
        return self._led.values()

    def led(self, key: ShareKey) -> LedShare | None:
        """Return a share that is open and led by this broker."""
        return self._led.get(key)

    def session_opened(self, keys: Iterable[ShareKey]) -> None:
        """Check that the shares that a new session uses are of the current incarnation."""
        for key in keys:
            try:
                partition = self.partition(key)
            except KafkaError:
                continue  # the fetch answers with the error
            self._openings.begin(key, partition)

    def _lead(self, key: ShareKey, partition: Partition, share: Share) -> LedShare:
        settings = self._settings(key.group)
        leases = Leases(share, settings, self._random)
        if settings.waits_at_failover and settings.is_confirmed:
            leases.resume_at = self._served_since[partition.shard.log.shard_id] + settings.lock_ms
            leases.resumes(self.lock_now)
        counters = self._broker.metrics.by_queue.of(key.group, partition.topic)
        led = self._led[key] = LedShare(key, partition, share, leases, counters, lambda: self._watermark_moved(key))
        self.letters.lead(led)
        self._look_aheads.extend(led)
        return led

    def _forget(self, led: LedShare) -> None:
        led.close()
        self.letters.forget(led)
        del self._led[led.key]

    def _settings(self, group: str) -> ShareSettings:
        return REDRIVE if is_redrive(group) else settings_from(self.configs.of(group))

    def _random(self) -> float:
        drawn = self._machine.entropy.random_bytes(RANDOM_BYTES)
        return int.from_bytes(drawn) / (1 << 8 * RANDOM_BYTES)

    # Decisions.

    def acknowledge(
        self,
        key: ShareKey,
        member: str,
        batches: Iterable[AcknowledgementBatch],
        *,
        may_renew: bool,
        then: Acknowledged,
    ) -> None:
        """
        Apply a member's acknowledgements for one partition.  `then` is called when they are committed, or with an error
        code if they are refused, or if their outcome is unknown.
        """
        try:
            partition = self.partition(key)
            self.check_writable(partition)
            led = self._led.get(key)
            if led is None or self.share(key, partition) is not led:
                raise KafkaError(errors.INVALID_RECORD_STATE, f"{member} holds no records of this partition")
            ranges = acknowledged_ranges(batches, may_renew=may_renew)
            had_room = led.leases.lock_room > 0
            runs = led.leases.acknowledge(member, ranges, now=self.lock_now, wall=self.append_time(partition))
        except KafkaError as refused:
            then(refused.error_code, refused.message)
            return
        except AcknowledgementRefused as refused:
            then(refused.code, str(refused))
            return
        if not runs and led.leases.settings.is_confirmed:  # a renewed lock must not outlive this leader's term
            partition.shard.confirm_leadership(lambda leads: then(*(_COMMITTED if leads else LOST)))
            return
        if not runs:
            then(errors.NONE, None)
            return
        if not had_room:
            self.wake(key)
        led.count_released(runs)
        self.decide(led, runs, lambda is_committed: then(*(_COMMITTED if is_committed else LOST)))

    def decide(self, led: LedShare, runs: Sequence[Run], then: Callable[[bool], None] | None = None) -> None:
        """Propose decisions.  `then` is called with True when they are committed, with False if leadership is lost."""

        def committed(is_committed: bool) -> None:
            if then is not None:
                then(is_committed)
            if is_committed and self._led.get(led.key) is led:
                self.letters.died(led, runs)
            self.wake(led.key)

        led.count_decided(runs)
        proposals = self._proposals_of(led.partition)
        if proposals is None:
            committed(False)
        else:
            proposals.set_runs(led, runs, committed)

    def undo(self, led: LedShare, acquired: Iterable[Acquired]) -> None:
        """Release acquired records that could not be sent, as if they had never been acquired."""
        if self._led.get(led.key) is led:
            led.leases.undo(acquired)
            self.wake(led.key)

    def release(self, session: ShareSession) -> None:
        """Release the records that a member holds, because its session has ended."""
        for topic_id, number in session.used:
            led = self._led.get(ShareKey(session.group, topic_id, number))
            if led is None:
                continue
            if runs := led.leases.leave(session.member):
                led.count_released(runs)
                self.decide(led, runs)
            self.wake(led.key)

    def close(self, request: share_close.Request) -> Pending[share_close.Response]:
        """Remove the shares of a deleted group from partitions that this broker leads."""
        pending: Pending[share_close.Response] = Pending()
        left = len(request.partitions)
        if not left:
            pending.complete(share_close.Response())
        refused: list[int] = []

        def closed(key: ShareKey, is_committed: bool) -> None:
            nonlocal left
            left -= 1
            if not is_committed:
                refused.append(key.partition)
            elif (topic := self._broker.shard_table.name_of(key.topic_id)) is not None:
                self._broker.metrics.by_queue.forget(key.group, topic)
            self.wake(key)
            if not left:
                pending.complete(share_close.Response(refused=refused))

        for number in request.partitions:
            key = ShareKey(request.group_id, request.topic_id, number)
            self._close(key, request.incarnation, partial(closed, key))
        return pending

    def _close(self, key: ShareKey, incarnation: int, then: Callable[[bool], None]) -> None:
        try:
            partition = self.partition(key)
        except KafkaError:
            then(False)
            return
        share = shares_of(partition).of_group(key.group)
        proposals = self._proposals_of(partition)
        if share is None or share.incarnation > incarnation:
            then(True)
        elif proposals is None:
            then(False)
        else:
            proposals.add(CloseShare(partition.number, share.number, incarnation), then)

    def _writable(self, key: ShareKey) -> Partition:
        partition = self.partition(key)
        self.check_writable(partition)
        return partition

    def check_writable(self, partition: Partition) -> None:
        """Raise KafkaError if no decision about records of this partition can be proposed now."""
        problem = self._broker.storage_problem()
        if problem is not None:
            raise KafkaError(errors.KAFKA_STORAGE_ERROR, problem)
        if not partition.shard.accepts_writes:
            raise KafkaError(*LOST)

    def _proposals_of(self, partition: Partition) -> ShardProposals | None:
        shard = partition.shard
        found = self._proposals.get(shard.log.shard_id)
        if found is None and shard.is_serving:
            assert isinstance(shard, Shard)
            found = ShardProposals(shard, self._machine, self._broker.storage_problem)
            self._proposals[shard.log.shard_id] = found
        return found

    # Fetches that wait for records.

    @property
    def waiting_count(self) -> int:
        """The number of ShareFetch requests that wait for records, or look for them."""
        return len(self._waiters)

    def begin(self, fetch: WaitingFetch, keys: Iterable[ShareKey], deadline: int) -> None:
        self._evaluate(self._waiters.begin(fetch, keys, deadline))

    def keep_waiting(self, fetch: WaitingFetch, left: Collection[ShareKey]) -> None:
        self._evaluate(self._waiters.keep_waiting(fetch, left))

    def finish(self, fetch: WaitingFetch, left: Collection[ShareKey]) -> None:
        self._evaluate(self._waiters.finish(fetch, left))

    def leave(self, fetch: WaitingFetch) -> None:
        self._evaluate(self._waiters.leave(fetch))

    def wake(self, key: ShareKey) -> None:
        """Note that records of a share may have become available, or that the share is not served here any more."""
        self._evaluate(self._waiters.wake(key))

    def waits_over(self) -> None:
        """Note that the wait of a fetch may be over."""
        self._evaluate(self._waiters.due(self._machine.clock.monotonic_ms()))

    def _evaluate(self, fetches: Iterable[WaitingFetch]) -> None:
        for fetch in fetches:
            self._machine.turns.call_soon(fetch.evaluate)

    def _watermark_moved(self, key: ShareKey) -> None:
        """Wake the share in the next turn, once, however often its high watermark moves in this one."""
        if key in self._waiters.waited_for:
            if not self._moved:
                self._machine.turns.call_soon(self._wake_moved)
            self._moved[key] = None

    def _wake_moved(self) -> None:
        moved, self._moved = self._moved, {}
        for key in moved:
            self.wake(key)

    # Events.

    def tick(self) -> None:
        """Release records whose locks have expired, wake shares whose delayed records are due, and end waits."""
        now, wall = self.lock_now, self.wall_ms
        for led in [*self._led.values()]:
            is_due = led.leases.takes_due(wall)
            if runs := led.leases.expire(now=now, wall=self.append_time(led.partition)):
                led.counters.locks_expired += sum(run.end - run.first for run in runs)
                self.decide(led, runs)
            if runs or is_due or led.leases.resumes(now) or self._replaces_silent(led, now, wall):
                self.wake(led.key)
        for proposals in [*self._proposals.values()]:
            proposals.flush()
        for key in self._unopened():
            self.wake(key)  # the fetch that is evaluated tries to open the share again
        self.waits_over()
        self._closings.tick()
        self._removed_records.tick()
        self.letters.tick()

    def _replaces_silent(self, led: LedShare, now: int, wall: int) -> bool:
        """Return whether the active member of an exclusive share is replaced, because it does not fetch."""
        active = led.leases.active.name
        if led.leases.settings.mode is not Mode.EXCLUSIVE or active is None:
            return False
        has_fetch = any(consumer_of(fetch.member) == active for fetch in self._waiters.waiting_for(led.key))
        return led.leases.replaces_silent(has_fetch=has_fetch, end=led.partition.high_watermark, now=now, wall=wall)

    def _unopened(self) -> Iterator[ShareKey]:
        return (key for key in [*self._waiters.waited_for] if key not in self._led)

    def serving_changed(self, shard: Shard) -> None:
        """
        Drop the leases of a shard that this broker no longer leads, and answer the fetches that wait for it.  Continue
        with the dead letters of a shard that this broker begins to lead.
        """
        if shard.is_serving:
            self._removed_records.watch(shard)
            self._served_since[shard.shard_id] = self.lock_now
            self._resume_letters(shard)
            return
        self._removed_records.stopped(shard)
        self._served_since.pop(shard.shard_id, None)
        for led in [led for led in self._led.values() if led.partition.shard is shard]:
            self._forget(led)
        proposals = self._proposals.pop(shard.shard_id, None)
        if proposals is not None:
            proposals.drop()
        for key in [*self._waiters.waited_for]:
            if key.partition in shard.partitions and key.topic_id == shard.log.descriptor.topic_id:
                self.wake(key)

    def _records_removed(self, partition: Partition, group: str, lost: Removed) -> None:
        """Drop the leases on records of a group that have been removed; their locks are free."""
        self.letters.records_removed(lost)
        led = self._led.get(ShareKey(group, partition.log.topic_id, partition.number))
        if led is not None:
            led.leases.start_moved()
            self.wake(led.key)

    def _resume_letters(self, shard: Shard) -> None:
        topic_id = shard.log.descriptor.topic_id
        for partition in shard.partitions.values():
            for share in shares_of(partition).by_number.values():
                if has_dead_records(share):
                    self.share(ShareKey(share.group, topic_id, partition.number), partition)

    def connection_lost(self, connection: Hashable) -> None:
        """End the sessions of a connection."""
        for session in self.sessions.disconnected(connection):
            self.release(session)

    def follow(self, before: ClusterImage, image: ClusterImage) -> None:
        """
        Apply changed configurations of groups to later decisions, and drop the counters of deleted topics.  Delays that
        have begun do not change.
        """
        if before.topics is not image.topics:
            self._broker.metrics.by_queue.keep_topics(image.topics)
        if before.configs is image.configs:
            return
        for led in [*self._led.values()]:
            settings = self._settings(led.key.group)
            if settings != led.leases.settings:
                led.leases.configure(settings)
                self.wake(led.key)  # a limit may have been raised


_COMMITTED: Final = (errors.NONE, None)
LOST: Final = (
    errors.NOT_LEADER_OR_FOLLOWER,
    "this broker no longer leads the partition: the outcome of the acknowledgements is unknown",
)

"""The shell around the controller: commands in, records appended to the metadata shard, answers when they have
committed.

    submit ─▶ controller.decide ─▶ records ─▶ append ─▶ controller.replay ─▶ … committed ─▶ image applied ─▶ answer

The image that everybody reads is made of committed records alone, read back from the log: at start, on the leader and
elsewhere alike.  When the log has grown well past its last snapshot, a snapshot run is appended and the log start
moves to it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tidemill.batches.batch import spans
from tidemill.batches.builder import build_batch
from tidemill.batches.records import read_records
from tidemill.metadata.apply import apply
from tidemill.metadata.brokers import GrowReplicas
from tidemill.metadata.controller import Command, Controller
from tidemill.metadata.image import EMPTY, ClusterImage
from tidemill.metadata.metadata_records import (
    BrokerRecord,
    MetadataFormatError,
    Record,
    SnapshotEndRecord,
    decode,
    encode,
)
from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.clock import Clock
from tidemill.model.entropy import Entropy
from tidemill.model.internal_topics import InternalTopic
from tidemill.shard.append import append_own
from tidemill.shard.pending import OUTCOME_UNKNOWN, Pending
from tidemill.shard.shard import Shard
from tidemill.storage.partition.segment import SegmentDamaged

READ_BYTES: Final = 1 << 20
TURN_BYTES: Final = 64 << 10  # of metadata that are read in one turn of the loop, a few milliseconds
SNAPSHOT_RECORDS_MIN: Final = 10_000  # records behind the log start before a snapshot pays
SNAPSHOT_GROWTH: Final = 4  # … and this many times what the snapshot itself would hold
STALE_MS: Final = 3_000  # without a leader of the metadata that is alive; elections take less


class ControllerHost:
    """One per broker; `submit` only where the metadata shard is led."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        static: Mapping[str, str],
        entropy: Entropy,
        internal_topics: tuple[InternalTopic, ...],
        clock: Clock,
        live: Callable[[], frozenset[BrokerId]],
        hears_this: Callable[[ReplicaKey], bool],
        says_it_leads: Callable[[], BrokerId | None],
        call_soon: Callable[[Callable[[], None]], object],
        warn: Callable[[str], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """
        `live` are the brokers that are heard of, and this one; `says_it_leads` is who does of the metadata, as it tells
        of itself; `warn` tells of what was decided for the worse; `failed` ends the process.
        """
        self.image: ClusterImage = EMPTY
        self.on_image: Callable[[ClusterImage, ClusterImage], None] | None = None  # (before, now)
        self.on_lead: Callable[[], None] = _nothing  # the controller is here from now on
        self._broker_id = broker_id
        self._static = static
        self._entropy = entropy
        self._internal_topics = internal_topics
        self._clock = clock
        self._live = live
        self._hears_this = hears_this
        self._says_it_leads = says_it_leads
        self._call_soon = call_soon
        self._warn = warn
        self._failed = failed
        self._shard: Shard | None = None
        self._controller: Controller | None = None
        self._applied = 0  # the metadata offset behind the last applied record
        self._partial: ClusterImage | None = None  # what `_applied` stands for, while that is not told yet
        self._is_turn_due = False
        self._snapshot_begun_at: int | None = None
        self._decided_upon = 0  # the log index of the newest record that the controller knows of
        self._grown_with: frozenset[BrokerId] = frozenset()  # who was alive when internal topics could last grow
        self._current_at: int | None = None  # when the image was last known to be, or the first tick

    def attach(self, shard: Shard) -> None:
        """The metadata shard is open; follow its log from its start."""
        self._shard = shard
        partition = shard.partitions[0]
        self._applied = partition.log_start
        try:
            self._follow()
        except SegmentDamaged as problem:
            if not shard.damage.suspect(problem):
                raise
        partition.watch(self._resume_in_slices)
        if shard.is_serving:
            self.serving_changed()

    def serving_changed(self) -> None:
        """This broker has come to lead the metadata shard, and all before its term is committed; or it does no more."""
        shard = self._shard
        if shard is None or not shard.is_serving:
            self._controller = self._snapshot_begun_at = None
            return
        self._resume()
        if self._applied < shard.partitions[0].high_watermark:
            return  # it cannot be read here: somebody else is about to lead
        self._decided_upon = 0
        self._grown_with = frozenset()
        self._controller = Controller(
            self.image,
            broker_id=self._broker_id,
            static=self._static,
            entropy=self._entropy,
            internal_topics=self._internal_topics,
        )
        self.on_lead()

    def tick(self) -> None:
        """Called a few times a second: who has come back may be given replicas of internal topics."""
        if self.is_current or self._current_at is None:
            self._current_at = self._clock.monotonic_ms()
        if self._controller is None and self._shard is not None and self._shard.is_serving:
            self.serving_changed()  # it could not be read, and perhaps it can
        if not self.accepts_writes or not self.image.cluster_id:
            return
        live = self._live()
        able = frozenset(it.broker_id for it in self.image.registered() if it.broker_id in live)
        if not able <= self._grown_with:
            self.submit(GrowReplicas())
        self._grown_with = able

    @property
    def is_current(self) -> bool:
        """The image here is what the controller goes by, but for what is on its way."""
        shard = self._shard
        if shard is None or shard.replica.installing is not None or shard.replica.is_damaged:
            return False
        if shard.replica.leads:
            return self._controller is not None
        leader = shard.replica.leader  # followed last: it may have stepped down, and its successor not be heard here
        return leader is not None and self._says_it_leads() == leader.broker_id and self._hears_this(leader)

    @property
    def is_stale(self) -> bool:
        """For longer than an election takes the image has not been current: others may go by another."""
        return self._current_at is not None and self._clock.monotonic_ms() - self._current_at > STALE_MS

    @property
    def leads(self) -> bool:
        return self._controller is not None

    @property
    def accepts_writes(self) -> bool:
        """It is here, and not about to be somewhere else."""
        return self._controller is not None and self._shard is not None and self._shard.accepts_writes

    def confirmed_offset(self, told: Callable[[int | None], None]) -> None:
        """That of the image, once a majority has said that the controller is still here; None: it is not."""
        assert self._shard is not None, "there is no metadata shard yet"
        self._shard.confirm_leadership(lambda leads: told(self.image.offset if leads else None))

    def submit(self, command: Command) -> Pending[Any]:
        """
        What the controller answers, once what it decided, and what it decided upon, has committed: also "it is there
        already", which else could be said of a topic that no client sees yet, or of one that a crash takes back; and
        where nothing was to be written, once a majority has said that this controller still leads.  A failure completes
        with OUTCOME_UNKNOWN.
        """
        pending: Pending[Any] = Pending()
        controller, shard = self._controller, self._shard
        assert controller is not None and shard is not None, "the controller is somewhere else"
        result: Any = controller.decide(command, self._clock.wall_ms(), live=self._live())
        index = self._append(result.records) if result.records else self._decided_upon

        def known(is_committed: bool) -> None:
            if is_committed:
                self._resume()  # whoever is answered finds the image, and what follows from it, as he was told
                for warning in result.warnings:
                    self._warn(warning)
            pending.complete(result.response if is_committed else OUTCOME_UNKNOWN)

        def committed(is_committed: bool) -> None:
            if result.records or not is_committed:
                known(is_committed)
            else:
                shard.confirm_leadership(known)

        shard.when_committed(index, committed)
        if result.records:
            self._snapshot_when_due()
        return pending

    def _append(self, records: tuple[Record, ...]) -> int:
        """Append, and let the controller go on from there; the log index."""
        controller, shard = self._controller, self._shard
        assert controller is not None and shard is not None, "the controller is somewhere else"
        partition = shard.partitions[0]
        now = self._clock.wall_ms()
        index = append_own(partition, build_batch([(None, encode(record), (), now) for record in records]), now)
        controller.replay(records, end_offset=partition.log.end_offset)
        self._decided_upon = index
        return index

    def _resume_in_slices(self) -> None:
        """
        After an install all of the log is new here.  Who only follows has other things to do meanwhile, and goes by
        the image of before.
        """
        if not self._is_turn_due:
            self._next_turn()

    def _next_turn(self) -> None:
        self._is_turn_due = self._resume(bytes_max=TURN_BYTES)
        if self._is_turn_due:
            self._call_soon(self._next_turn)

    def _resume(self, bytes_max: int | None = None) -> bool:
        """
        A broker that cannot read the cluster's metadata follows yesterday's until it has been repaired; where nobody
        does that, it ends, for it would not start either; nor would it with records that it does not know.
        """
        try:
            return self._follow(bytes_max)
        except SegmentDamaged as problem:
            assert self._shard is not None, "there is no metadata shard yet"
            if not self._shard.damage.suspect(problem):
                self._failed(problem)
            return False
        except MetadataFormatError as problem:
            self._failed(problem)
            return False

    def _follow(self, bytes_max: int | None = None) -> bool:
        """
        Apply what has committed since, then tell of the new image; or about `bytes_max` of it, and True: there is more.
        Not in the middle of an install: a part of the log lacks topics, and topics that go from the image are deleted
        here.
        """
        shard = self._shard
        assert shard is not None, "there is no metadata shard yet"
        if shard.replica.installing is not None or shard.replica.is_damaged:
            return False
        partition = shard.partitions[0]
        image = self.image if self._partial is None else self._partial
        if self._applied < partition.log_start:  # an install has taken the log past what was read of it
            image, self._applied = EMPTY, partition.log_start
            self._partial = image
        bytes_read = 0
        while self._applied < partition.high_watermark:
            if bytes_max is not None and bytes_read >= bytes_max:
                return True
            size = READ_BYTES if bytes_max is None else bytes_max
            found = partition.log.read(self._applied, size, partition.high_watermark, may_wait=True)
            assert found is not None, "a read that may wait answers"
            bytes_read += sum(map(len, found[0]))
            for records, end_offset in _records_in(found[0]):
                if end_offset > self._applied:
                    image = self._partial = apply(image, records, end_offset=end_offset)
                    self._applied = end_offset
                    self._snapshot_ended(records)
        before, self.image, self._partial = self.image, image, None
        if image is not before and self.on_image is not None:
            self.on_image(before, image)
        return False

    def brokers_heard_of(self) -> Iterator[BrokerRecord]:
        """
        All that the log here tells of brokers, committed or not: hints of where they are reached.  After a start
        nothing is known to be committed, and somebody must be reached before that can be learnt.
        """
        shard = self._shard
        assert shard is not None, "there is no metadata shard yet"
        log = shard.partitions[0].log
        offset = log.log_start
        while offset < log.end_offset:
            try:
                found = log.read(offset, READ_BYTES, log.end_offset, may_wait=True)
                assert found is not None, "a read that may wait answers"
                for records, end_offset in _records_in(found[0]):
                    offset = end_offset
                    yield from (record for record in records if isinstance(record, BrokerRecord))
            except (SegmentDamaged, MetadataFormatError):
                return  # those that are named behind it find this broker

    def _snapshot_when_due(self) -> None:
        shard, controller = self._shard, self._controller
        assert shard is not None and controller is not None, "the controller is somewhere else"
        partition = shard.partitions[0]
        behind = partition.log.end_offset - partition.log_start
        held = len(controller.image.topics) + len(controller.image.shards) + len(controller.image.configs)
        if self._snapshot_begun_at is not None or behind < max(SNAPSHOT_RECORDS_MIN, SNAPSHOT_GROWTH * held):
            return
        self._snapshot_begun_at = partition.log.end_offset
        for chunk in list(controller.snapshot()):
            self._append(chunk)

    def _snapshot_ended(self, records: tuple[Record, ...]) -> None:
        """The end record of our own run has committed: what lies before the run may go."""
        begun = self._snapshot_begun_at
        if begun is not None and records and isinstance(records[-1], SnapshotEndRecord):
            self._snapshot_begun_at = None
            if self._shard is not None and self._shard.replica.leads:
                self._shard.move_log_start(0, begun, self._clock.wall_ms())


def _nothing() -> None:
    """Nobody does anything as the controller."""


def _records_in(buffers: list[Any]) -> Iterator[tuple[tuple[Record, ...], int]]:
    """The metadata records of each batch, and the offset behind it."""
    for buffer in buffers:
        for span in spans(buffer):
            batch = memoryview(buffer)[span.position : span.position + span.size]
            records = tuple(decode(record.value or b"") for record in read_records(batch))
            yield records, span.header.end_offset

"""Registers the group coordinator.  Its core holds the groups of one partition of `__consumer_offsets`."""

from collections.abc import Iterator, Sequence
from typing import Final

from tidemill.broker.coordinators.coordinator_host import CoordinatorHost
from tidemill.broker.coordinators.coordinator_registration import CoordinatorRegistration, CoreContext, DeletedTopics
from tidemill.broker.coordinators.share_group_configs import ShareGroupConfigs
from tidemill.coordinator.group.group_partition import partition_for
from tidemill.coordinator.group.group_settings import GroupSettings
from tidemill.coordinator.group.groups import Groups
from tidemill.coordinator.group.refusal import refused
from tidemill.coordinator.group.requests import (
    CommitOffsets,
    DescribeGroups,
    FetchOffsets,
    ForgetTopics,
    GroupRequest,
    Heartbeat,
    ListGroups,
)
from tidemill.coordinator.group.snapshot import SnapshotChunks
from tidemill.coordinator.result import Key, LogRecord, Result, Waiter
from tidemill.coordinator.share_group.cluster_view import ClusterView, TopicView
from tidemill.coordinator.share_group.requests import (
    AlterShareOffsets,
    DeleteShareOffsets,
    ShareGroupRequest,
    ShareOpen,
    SharesClosed,
)
from tidemill.coordinator.timestamps import Timestamps
from tidemill.metadata.image import Topic
from tidemill.model import errors
from tidemill.model.config_resolution import BrokerLayers, broker_int
from tidemill.model.internal_topics import OFFSETS
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown

GROUP_KEY_TYPE: Final = 0  # the key type of groups in FindCoordinator
SNAPSHOT_CHUNK_RECORDS: Final = 200  # records per turn, so few that other requests wait only a few milliseconds

# Requests that are served while the disk is full, because they append nothing or (ForgetTopics) free space.
_SERVED_WHEN_FULL: Final = (Heartbeat, FetchOffsets, DescribeGroups, ListGroups, ForgetTopics)


class GroupCore:
    """Adapts `Groups` to `ReplicatedCore`."""

    is_atomic = False  # each record is valid without the others

    def __init__(self, context: CoreContext) -> None:
        self.groups = Groups(group_settings(context.layers()), context.entropy, _cluster_view(context))

    def encode(self, record: LogRecord) -> LogRecord:
        return record

    def decode(self, key: bytes | None, value: bytes | None) -> LogRecord:
        return LogRecord(key or b"", value)

    def replay(self, records: Sequence[LogRecord], end_offset: int) -> None:
        for key, value in records:
            self.groups.replay(key, value)

    def loaded(self, timestamps: Timestamps) -> Result[LogRecord]:
        return self.groups.loaded(timestamps)

    def decide(self, request: GroupRequest, waiter: Waiter, timestamps: Timestamps) -> Result[LogRecord]:
        if not isinstance(request, ForgetTopics | SharesClosed):
            request.waiter = waiter
        return self.groups.decide(request, timestamps)

    def expire(self, key: Key, timestamps: Timestamps) -> Result[LogRecord]:
        return self.groups.expire(key, timestamps)

    def drain(self, error_code: int) -> tuple[tuple[Waiter, object], ...]:
        return self.groups.drain(error_code)

    def is_refused_when_full(self, request: GroupRequest) -> bool:
        if isinstance(request, ShareGroupRequest):
            return not self.groups.appends_nothing(request)
        return not isinstance(request, _SERVED_WHEN_FULL)

    def needs_current_metadata(self, request: GroupRequest) -> bool:
        """
        Return True for requests about offsets: offsets belong to a topic id, and a stale image may map a topic's name
        to the id of a deleted topic.  Also return True for the opening of a share, whose start depends on the group's
        configuration.
        """
        return isinstance(request, CommitOffsets | FetchOffsets | ShareOpen | AlterShareOffsets | DeleteShareOffsets)

    def snapshot(self, first_offset: int, append_time: int) -> Iterator[Sequence[LogRecord]]:
        return _closed(self.groups.snapshot_chunks(SNAPSHOT_CHUNK_RECORDS), first_offset, append_time)

    @property
    def snapshot_size(self) -> int:
        """
        The number of records in the last snapshot.  If the state has grown since, the only effect is that the next
        snapshot is taken earlier than necessary.
        """
        end = self.groups.snapshot_end
        return 0 if end is None else end.record_count

    @property
    def snapshot_first_offset(self) -> int | None:
        end = self.groups.snapshot_end
        return None if end is None else end.first_offset


def _closed(chunks: SnapshotChunks, first_offset: int, append_time: int) -> Iterator[Sequence[LogRecord]]:
    """Yield the chunks, and then the record that closes the snapshot."""
    yield from chunks
    yield [chunks.end_record(first_offset, append_time)]


def _cluster_view(context: CoreContext) -> ClusterView:
    image = context.image
    return ClusterView(
        topic=lambda name: _topic_view(image().topic(name)),
        topic_by_id=lambda topic_id: _topic_view(image().topic_by_id(topic_id)),
        share_group_config=ShareGroupConfigs(context.image, context.layers).of,
    )


def _topic_view(topic: Topic | None) -> TopicView | None:
    return None if topic is None else TopicView(topic.topic_id, topic.name, topic.partition_count)


def _rejection(request: GroupRequest, reason: int | OutcomeUnknown) -> object:
    """
    Return the reply that rejects `request`.  An unknown outcome becomes COORDINATOR_NOT_AVAILABLE, which makes clients
    look for the coordinator and retry.
    """
    return refused(request, errors.COORDINATOR_NOT_AVAILABLE if reason is OUTCOME_UNKNOWN else reason)


def group_settings(layers: BrokerLayers) -> GroupSettings:
    """Return the broker's current group settings.  A core keeps the settings that it was created with."""
    return GroupSettings(
        session_timeout_ms_min=broker_int(layers, "group.min.session.timeout.ms"),
        session_timeout_ms_max=broker_int(layers, "group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=broker_int(layers, "group.initial.rebalance.delay.ms"),
        size_max=broker_int(layers, "group.max.size"),
        share_size_max=broker_int(layers, "group.share.max.size"),
        offsets_retention_ms=broker_int(layers, "offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=broker_int(layers, "offsets.retention.check.interval.ms"),
        offset_metadata_bytes_max=broker_int(layers, "offset.metadata.max.bytes"),
    )


GROUPS: Final[CoordinatorRegistration[GroupRequest, GroupCore]] = CoordinatorRegistration(
    topic=OFFSETS,
    partition_for=partition_for,
    new_core=GroupCore,
    rejection=_rejection,
    key_type=GROUP_KEY_TYPE,
    deleted_topics=DeletedTopics(
        topic_ids=lambda core: core.groups.topic_ids(), forget=lambda topic_ids: ForgetTopics(topic_ids=topic_ids)
    ),
)


def ask_group(coordinators: CoordinatorHost, group_id: str, request: GroupRequest) -> None:
    """Pass a request to the group's coordinator.  The request's `waiter` is called once, with the reply."""
    answer = None if isinstance(request, ForgetTopics | SharesClosed) else request.waiter
    assert callable(answer), "a handler passes the callback that takes the reply"
    coordinators.of(GROUPS).ask(group_id, request, answer)

"""The controller: the entry point of the metadata state machine, on the broker that leads the metadata shard.

The controller has the three methods of every coordinator.  `decide` reads the state and returns records without
changing the state.  `replay` applies the decided records once their append has been accepted.  `snapshot` returns
records that may replace all earlier ones in the log.

If an append fails, this broker is no longer the leader: drop the controller, and build a new one from the committed
image when the broker leads again.  The caller must not call `decide` again between a `decide` and its `replay`, or both
decisions would allocate the same ids.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never, overload

from tidemill.metadata.admission import AdmitBroker, Admitted, admit_broker
from tidemill.metadata.apply import apply
from tidemill.metadata.broker_states import BrokerChanged, SetDrain, SetPresence, set_drain, set_presence
from tidemill.metadata.brokers import (
    BootstrapCluster,
    GrowReplicas,
    RegisterBroker,
    Registered,
    bootstrap_cluster,
    grow_replicas,
    register_broker,
)
from tidemill.metadata.configs import (
    AlterConfigs,
    AlteredResource,
    IncrementalAlterConfigs,
    alter_configs,
    incremental_alter_configs,
)
from tidemill.metadata.features import UpdatedFeatures, UpdateFeatures, update_features
from tidemill.metadata.image import ClusterImage
from tidemill.metadata.metadata_records import Record
from tidemill.metadata.partitions import CreatePartitions, GrownTopic, create_partitions
from tidemill.metadata.producer_ids import AllocateProducerIds, ProducerIdBlock, allocate_producer_ids
from tidemill.metadata.reassignments import PlanMoves, PlannedMoves, plan_moves
from tidemill.metadata.result import DecisionContext, Result
from tidemill.metadata.snapshot import snapshot_chunks
from tidemill.metadata.topics import (
    CreatedTopic,
    CreateInternalTopic,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    create_internal_topic,
    create_topics,
    delete_topics,
)
from tidemill.metadata.unregistration import UnregisterBroker, unregister_broker
from tidemill.model.broker_id import BrokerId
from tidemill.model.entropy import Entropy
from tidemill.model.internal_topics import INTERNAL_TOPICS, InternalTopic

Command = (
    BootstrapCluster
    | AdmitBroker
    | RegisterBroker
    | GrowReplicas
    | PlanMoves
    | CreateTopics
    | CreateInternalTopic
    | DeleteTopics
    | CreatePartitions
    | IncrementalAlterConfigs
    | AlterConfigs
    | AllocateProducerIds
    | UpdateFeatures
    | SetPresence
    | SetDrain
    | UnregisterBroker
)

Live = frozenset[BrokerId] | None


class Controller:
    def __init__(
        self,
        image: ClusterImage,
        *,
        broker_id: BrokerId,
        static: Mapping[str, str],
        entropy: Entropy,
        internal_topics: tuple[InternalTopic, ...] = INTERNAL_TOPICS,
    ) -> None:
        """Start from the committed `image`; `static` holds the settings that this broker was started with."""
        self._image = image
        self._broker_id = broker_id
        self._static = static
        self._entropy = entropy
        self._internal_topics = internal_topics

    @property
    def image(self) -> ClusterImage:
        """The image as of the last appended record.

        It may be ahead of the committed image, so it must not be shown to clients.
        """
        return self._image

    @overload
    def decide(
        self, command: BootstrapCluster | RegisterBroker, now_ms: int, *, live: Live = None
    ) -> Result[Registered]: ...
    @overload
    def decide(self, command: AdmitBroker, now_ms: int, *, live: Live = None) -> Result[Admitted]: ...
    @overload
    def decide(self, command: GrowReplicas, now_ms: int, *, live: Live = None) -> Result[None]: ...
    @overload
    def decide(self, command: PlanMoves, now_ms: int, *, live: Live = None) -> Result[PlannedMoves]: ...
    @overload
    def decide(self, command: CreateTopics, now_ms: int, *, live: Live = None) -> Result[tuple[CreatedTopic, ...]]: ...
    @overload
    def decide(self, command: CreateInternalTopic, now_ms: int, *, live: Live = None) -> Result[CreatedTopic]: ...
    @overload
    def decide(self, command: DeleteTopics, now_ms: int, *, live: Live = None) -> Result[tuple[DeletedTopic, ...]]: ...
    @overload
    def decide(
        self, command: CreatePartitions, now_ms: int, *, live: Live = None
    ) -> Result[tuple[GrownTopic, ...]]: ...
    @overload
    def decide(
        self, command: IncrementalAlterConfigs | AlterConfigs, now_ms: int, *, live: Live = None
    ) -> Result[tuple[AlteredResource, ...]]: ...
    @overload
    def decide(self, command: AllocateProducerIds, now_ms: int, *, live: Live = None) -> Result[ProducerIdBlock]: ...
    @overload
    def decide(self, command: UpdateFeatures, now_ms: int, *, live: Live = None) -> Result[UpdatedFeatures]: ...
    @overload
    def decide(
        self, command: SetPresence | SetDrain | UnregisterBroker, now_ms: int, *, live: Live = None
    ) -> Result[BrokerChanged]: ...
    def decide(self, command: Command, now_ms: int, *, live: Live = None) -> Result[object]:
        """Return the records that carry out `command` and the response to send once they are committed.

        `now_ms` is the wall-clock time, for decisions that depend on the time.  `live` holds the live brokers, for the
        placement of replicas; None means that all are live.
        """
        context = DecisionContext(
            image=self._image,
            layers=self._image.broker_layers(self._broker_id, self._static),
            entropy=self._entropy,
            live=live,
            internal_topics=self._internal_topics,
        )
        match command:
            case BootstrapCluster():
                return bootstrap_cluster(context, command)
            case AdmitBroker():
                return admit_broker(context, command)
            case RegisterBroker():
                return register_broker(context, command)
            case GrowReplicas():
                return grow_replicas(context, command)
            case PlanMoves():
                return plan_moves(context, command)
            case CreateTopics():
                return create_topics(context, command)
            case CreateInternalTopic():
                return create_internal_topic(context, command)
            case DeleteTopics():
                return delete_topics(context, command)
            case CreatePartitions():
                return create_partitions(context, command)
            case IncrementalAlterConfigs():
                return incremental_alter_configs(context, command)
            case AlterConfigs():
                return alter_configs(context, command)
            case AllocateProducerIds():
                return allocate_producer_ids(context, command)
            case UpdateFeatures():
                return update_features(context, command)
            case SetPresence():
                return set_presence(context, command)
            case SetDrain():
                return set_drain(context, command)
            case UnregisterBroker():
                return unregister_broker(context, command)
            case _:
                assert_never(command)

    def replay(self, records: Sequence[Record], *, end_offset: int | None = None) -> None:
        """Apply decided records whose append was accepted; `end_offset` is the metadata log's end offset after them."""
        self._image = apply(self._image, records, end_offset=end_offset)

    def snapshot(self) -> Iterator[tuple[Record, ...]]:
        """Return the entire state as chunks of records; the last record is the end record.

        The caller appends all chunks before the next `replay`.
        """
        return snapshot_chunks(self._image)

"""The controller: the entrance to the cluster's state machine, on the broker that leads the metadata shard.

Three verbs, as every coordinator has them.  `decide` reads, and changes nothing.  `replay` is called with what was
decided when its append is accepted.  `snapshot` gives what may stand in the log in place of everything before it.

If an append fails, this broker leads no longer: drop the controller, and make a new one from the committed image when
it leads again.  Between `decide` and `replay` no other `decide` may come, or both would give away the same ids.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never, overload

from tidemill.metadata.admission import AdmitBroker, Admitted, admit_broker
from tidemill.metadata.apply import apply
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
from tidemill.metadata.image import ClusterImage
from tidemill.metadata.metadata_records import Record
from tidemill.metadata.partitions import CreatePartitions, GrownTopic, create_partitions
from tidemill.metadata.producer_ids import AllocateProducerIds, ProducerIdBlock, allocate_producer_ids
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
from tidemill.model.broker_id import BrokerId
from tidemill.model.entropy import Entropy

Command = (
    BootstrapCluster
    | AdmitBroker
    | RegisterBroker
    | GrowReplicas
    | CreateTopics
    | CreateInternalTopic
    | DeleteTopics
    | CreatePartitions
    | IncrementalAlterConfigs
    | AlterConfigs
    | AllocateProducerIds
)

Live = frozenset[BrokerId] | None


class Controller:
    def __init__(
        self, image: ClusterImage, *, broker_id: BrokerId, static: Mapping[str, str], entropy: Entropy
    ) -> None:
        """`image` is the committed one; `static` is what this broker was started with."""
        self._image = image
        self._broker_id = broker_id
        self._static = static
        self._entropy = entropy

    @property
    def image(self) -> ClusterImage:
        """As of the last record that was appended: it may run ahead of what is committed, so no client is shown it."""
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
    def decide(self, command: Command, now_ms: int, *, live: Live = None) -> Result[object]:
        """
        What the command changes and what is answered.  `now_ms` (wall clock) is for decisions that expire, `live` for
        those of where replicas go (None: every broker is).
        """
        context = DecisionContext(
            image=self._image,
            layers=self._image.broker_layers(self._broker_id, self._static),
            entropy=self._entropy,
            live=live,
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
            case _:
                assert_never(command)

    def replay(self, records: Sequence[Record], *, end_offset: int | None = None) -> None:
        """The append of decided records was accepted; `end_offset` is the metadata log's end behind them."""
        self._image = apply(self._image, records, end_offset=end_offset)

    def snapshot(self) -> Iterator[tuple[Record, ...]]:
        """The whole state in chunks, closed by an end record; to be appended in one go, before the next `replay`."""
        return snapshot_chunks(self._image)

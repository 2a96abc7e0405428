"""Broker: creates and connects the parts of one broker process.  The entry point of this folder.

The parts open in this order: data directory, store, metadata shard (shard 0), cluster image, all other shards,
listeners.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, Protocol

from tidemill.batches.batch import MalformedBatch
from tidemill.batches.compression import CompressionError
from tidemill.broker.clients.connection_memory import ConnectionMemory, Holder
from tidemill.broker.clients.deadlines import Deadlines
from tidemill.broker.clients.fetch_session import FetchSessions
from tidemill.broker.clients.recompressor import Recompressor
from tidemill.broker.controller.controller_client import ControllerClient
from tidemill.broker.controller.controller_host import ControllerHost
from tidemill.broker.controller.image_follower import ImageFollower
from tidemill.broker.controller.metadata_freshness import MetadataFreshness
from tidemill.broker.controller.metadata_quorum_status import MetadataQuorumStatus
from tidemill.broker.controller.operator_commands import OperatorCommands
from tidemill.broker.controller.producer_id_source import ProducerIdSource
from tidemill.broker.controller.rebalance_host import RebalanceHost
from tidemill.broker.controller.topic_creation import TopicCreation
from tidemill.broker.coordinators.coordinator_host import CoordinatorHost
from tidemill.broker.coordinators.coordinator_registration import AnyRegistration
from tidemill.broker.leadership.awaited_transfers import AwaitedTransfers
from tidemill.broker.leadership.drain_leadership import DrainLeadership
from tidemill.broker.leadership.leadership_transfers import LeadershipTransfers
from tidemill.broker.load.load_reporter import LoadReporter
from tidemill.broker.load.reported_load import ReportedLoad
from tidemill.broker.machine import Machine
from tidemill.broker.maintenance.leader_balancer import LeaderBalancer
from tidemill.broker.maintenance.membership_reconciler import MembershipReconciler
from tidemill.broker.maintenance.removal_watch import RemovalWatch
from tidemill.broker.maintenance.replica_releases import ReplicaReleases
from tidemill.broker.maintenance.retention_host import RetentionHost
from tidemill.broker.peers.cluster import Cluster
from tidemill.broker.rate_limited_events import RateLimitedEvents
from tidemill.broker.shards.free_space import FreeSpace
from tidemill.broker.shards.ready_loop import ReadyLoop
from tidemill.broker.shards.shard_table import ShardTable
from tidemill.broker.shares.share_host import ShareHost
from tidemill.broker.stall_tolerant_clock import StallTolerantClock
from tidemill.broker.timers.arrival_turns import ArrivalTurns
from tidemill.broker.timers.timer_host import TimerHost
from tidemill.broker.wrong_port_events import WrongPortEvents
from tidemill.metadata.feature_levels import NEWEST
from tidemill.metadata.image import ClusterImage
from tidemill.metadata.metadata_records import HTTP_ENDPOINT
from tidemill.metadata.topic_configs import TopicConfigs
from tidemill.model import errors
from tidemill.model.broker_id import ReplicaKey
from tidemill.model.config_resolution import BrokerLayers, broker_int
from tidemill.model.internal_topics import all_internal_topics
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.model.topic import TopicId
from tidemill.peer.frame import DRAINING, HAS_CONTROLLER_CONTACT
from tidemill.peer.load import Load
from tidemill.rebalance.policy import move_bytes_per_s
from tidemill.shard.copy_pacing import CopyPacing
from tidemill.shard.partition import Partition
from tidemill.shard.shard import Shard
from tidemill.storage.data_directory import Identity
from tidemill.storage.partition.partition_log import OffsetGone
from tidemill.storage.partition.segment import SegmentDamaged
from tidemill.storage.store import Store
from tidemill.telemetry.history import History
from tidemill.telemetry.metrics import Metrics
from tidemill.wire.first_bytes import ClientProtocol
from tidemill.wire.messages import metadata
from tidemill.wire.schema import Api

ELECTION_TICK_S: Final = 0.02
REQUESTS_BYTES_MAX: Final = 256 << 20  # bytes of incomplete and unanswered requests on all connections


class Connection(Holder, Hashable, Protocol):
    """The part of a client's connection that the broker uses."""

    def stop_receiving(self) -> None:
        """Respond to the requests in progress, but start no others."""
        ...


class Broker:
    def __init__(
        self,
        store: Store,
        identity: Identity,
        static: Mapping[str, str],
        machine: Machine,
        registrations: Sequence[AnyRegistration],
        newest_level: int = NEWEST,
    ) -> None:
        """
        `static` is the configuration with which the process was started; `registrations` lists the coordinators.
        `newest_level` is the highest feature level that this version of Tidemill supports.
        """
        self.newest_level = newest_level
        self.identity = identity
        self.broker_id = identity.broker_id
        self.static = static
        self.machine = machine
        self.clock = machine.clock
        self.began_ms = machine.clock.monotonic_ms()
        self.stall_tolerant_clock = StallTolerantClock(machine.clock)
        self.events = machine.events
        self.store = store
        self.metrics = Metrics(broker_int(BrokerLayers(static=static), "tidemill.metrics.topics.max"))
        self.history = History(self.metrics, monotonic_ms=machine.clock.monotonic_ms, wall_ms=machine.clock.wall_ms)
        self.configs = TopicConfigs(identity.broker_id, static)

        # What this broker knows of the cluster, and tells it.
        self.image_follower = ImageFollower(
            newest_level=newest_level, call_soon=machine.turns.call_soon, failed=machine.failed
        )
        self.cluster = Cluster(
            identity, machine, self, newest_level=newest_level, stall_tolerant_clock=self.stall_tolerant_clock
        )
        self.reported_load = ReportedLoad(self.cluster, self.stall_tolerant_clock)
        self.cluster.leaders.on_change = self.reported_load.leader_changed
        self.load_reporter = LoadReporter(
            machine,
            self.cluster,
            store.disk,
            self.metrics,
            layers=lambda: self.layers,
            reported=self.reported_load,
            clock=self.stall_tolerant_clock,
        )
        self.controller = ControllerHost(
            self.image_follower,
            self.cluster,
            machine,
            broker_id=identity.broker_id,
            static=static,
            internal_topics=all_internal_topics(it.topic for it in registrations),
            stall_tolerant_clock=self.stall_tolerant_clock,
        )

        # Shards.
        self.copy_pacing = CopyPacing(
            machine.clock.monotonic_ms, machine.call_later, lambda: move_bytes_per_s(self.layers)
        )
        self.shard_table = ShardTable(
            store,
            identity.voter,
            self.configs,
            machine,
            counters=self.metrics.by_topic,
            wake=self._wake,
            transport=self.cluster,
            observer=self.cluster,
            pacing=self.copy_pacing,
        )
        self.ready_loop = ReadyLoop(
            store,
            self.shard_table.shards,
            machine,
            stall_tolerant_clock=self.stall_tolerant_clock,
            metrics=self.metrics,
        )
        self.free_space = FreeSpace(store, self.metrics, machine.events)

        # Coordinators, and what they and clients ask of the controller.
        self.deadlines = Deadlines(machine.clock)
        self.controller_client = ControllerClient(machine, self.controller, self.cluster)
        self.topic_creation = TopicCreation(self.controller_client, self.cluster)
        self.producer_ids = ProducerIdSource(self.controller_client, identity.broker_id)
        self.coordinators = CoordinatorHost(registrations, self)
        self.shares = ShareHost(self, self.stall_tolerant_clock)
        self.timers = TimerHost(self)

        # Where replicas and leaders are.
        self.drain_leadership = DrainLeadership(
            shard_table=self.shard_table,
            cluster=self.cluster,
            controller=self.controller,
            free_space=self.free_space,
            is_ready=lambda: self.is_ready,
            image=lambda: self.image,
            clock=machine.clock,
            stall_tolerant_clock=self.stall_tolerant_clock,
        )
        self.membership_reconciler = MembershipReconciler(machine, self.shard_table, self.cluster)
        self.replica_releases = ReplicaReleases(machine, self.shard_table, self.cluster)
        self.removal_watch = RemovalWatch(machine, self.cluster, is_ready=lambda: self.is_ready)
        self.leadership_transfers = LeadershipTransfers(self.shard_table, self.cluster, lambda: self.image)
        self.awaited_transfers = AwaitedTransfers(
            self.cluster,
            machine.clock,
            machine.events,
            ask=self.leadership_transfers.begin,
            voters=self.reported_load.voters,
            image=lambda: self.image,
            leads=lambda: self.controller.leads,
        )
        self.rebalance = RebalanceHost(
            controller=self.controller,
            cluster=self.cluster,
            machine=machine,
            figures=self.reported_load,
            image=lambda: self.image,
            layers=lambda: self.layers,
            transfers=self.awaited_transfers,
            stall_tolerant_clock=self.stall_tolerant_clock,
        )
        self.operator_commands = OperatorCommands(
            self.rebalance, self.controller, lambda: self.image, self.reported_load.voters
        )
        self.leader_balancer = LeaderBalancer(
            machine,
            self.shard_table,
            self.cluster,
            self.leadership_transfers,
            lambda: self.layers,
            self.shares.shards_with_locks,
        )

        # Repeated work.
        self.quorum = MetadataQuorumStatus(machine, self.cluster)
        self.retention = RetentionHost(
            machine=machine,
            shard_table=self.shard_table,
            layers=lambda: self.layers,
            metadata_freshness=MetadataFreshness(machine, lambda: self.image, self.controller_client),
            metrics=self.metrics,
        )

        # Clients.
        self.fetch_sessions = FetchSessions(
            machine.entropy, broker_int(self.layers, "max.incremental.fetch.session.cache.slots")
        )
        self.fetch_bytes_max = broker_int(self.layers, "fetch.max.bytes")
        self.memory = ConnectionMemory(_queued_bytes_max(self.layers), machine.clock)
        self.recompressor = Recompressor(machine.compression_jobs, self.memory)
        self.arrival_turns = ArrivalTurns(machine.turns, machine.clock)
        self.connections: dict[Connection, None] = {}
        self._refusals = RateLimitedEvents(machine.clock)
        self._wrong_port = WrongPortEvents(machine.events, machine.clock)
        self._damages = RateLimitedEvents(machine.clock)
        self._is_tick_scheduled = False  # whether an extra tick of the shards is scheduled; see `tick_shards`
        self.is_ready: bool = False
        self.is_live = True

    @property
    def image(self) -> ClusterImage:
        return self.image_follower.image

    @property
    def layers(self) -> BrokerLayers:
        """This broker's configuration: its static settings, overridden by the settings in the image."""
        return self.image.broker_layers(self.broker_id, self.static)

    def _wake(self) -> None:
        self.ready_loop.wake()

    def follow(self, before: ClusterImage, image: ClusterImage) -> None:
        """
        Apply a change to the cluster image, first to the shards and then to the coordinators, which use the shards.
        """
        self.shard_table.follow(before, image)
        self.coordinators.follow(before, image)
        self.shares.follow(before, image)
        self.reported_load.follow(before, image)
        self.cluster.follow(before, image)

    def endpoints_for(self, listener: str, *, listed: bool = True) -> list[metadata.Response.Broker]:
        """
        Return the brokers that clients of `listener` should know: those that are up or were up recently, each with its
        endpoint for the listener of that name.  If `listed` is False, return all other brokers instead.

        An isolated broker (without quorum contact) lists every broker; otherwise, its clients would forget the other
        brokers and could not switch to them.
        """
        lists_all = not self.cluster.has_quorum_contact
        found = []
        for broker in self.image.brokers.values():
            endpoint = next((e for e in broker.endpoints if e.name == listener), None)
            if endpoint is not None and (lists_all or self.cluster.is_listed(broker.broker_id)) == listed:
                found.append(
                    metadata.Response.Broker(
                        node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                    )
                )
        return found

    def missing_partition(self, topic: str, topic_id: bytes, number: int) -> int:
        """
        Return the error code for a partition that has no replica on this broker: NOT_LEADER_OR_FOLLOWER if the
        partition exists on other brokers.
        """
        if not topic and self.shard_table.name_of(TopicId(topic_id)) is None:
            return errors.UNKNOWN_TOPIC_ID
        known = self.image.topic(topic) or self.image.topic_by_id(TopicId(topic_id))
        if known is not None and known.shard_of(number) is not None:
            return errors.NOT_LEADER_OR_FOLLOWER
        return errors.UNKNOWN_TOPIC_OR_PARTITION

    def create_internal_topic(self, name: str, created: Callable[[int], None]) -> None:
        """
        Create an internal topic.  `created` is called with 0 when the topic exists and its shards have leaders, or with
        an error code.
        """
        self.topic_creation.create_internal(name, created)

    def storage_problem(self) -> str | None:
        """Return why appends are refused now (rule F1 of `docs/formats/journal.md`); None if they are accepted."""
        return self.free_space.problem

    def may_release(self) -> bool:
        """Return whether the disk has room for released records of timer topics, which need less than arrivals do."""
        return self.free_space.may_release

    def read_failed(self, partition: Partition, error: Exception) -> int:
        """
        Return the error code for a failed read.  If the read found damage, log it and let the shard check its files.

        Records that cannot be opened are no damage: a producer has written them so, and they are too large, or not
        records.  Records that are gone because the partition was removed meanwhile are not out of range: a consumer
        would begin elsewhere in the topic.
        """
        if isinstance(error, SegmentDamaged):
            self.metrics.corrupt_batches += 1
            if self._damages.may_log():  # clients repeat a failed read continually, which must not flood the log
                topic, number = partition.topic, partition.number
                self.events.error("segment damaged", topic=topic, partition=number, problem=str(error))
            partition.shard.damage.suspect(error)
            return errors.KAFKA_STORAGE_ERROR
        if isinstance(error, (CompressionError, MalformedBatch)):
            return errors.CORRUPT_MESSAGE
        is_trimmed = isinstance(error, OffsetGone) and not partition.log.is_closed
        return errors.OFFSET_OUT_OF_RANGE if is_trimmed else errors.UNKNOWN_TOPIC_OR_PARTITION

    def refused_connection(self, peer: tuple[str, int], error: Exception) -> None:
        if self._refusals.may_log():
            self.events.warning("connection closed", peer=f"{peer[0]}:{peer[1]}", problem=str(error))

    def refused_protocol(self, listener: str, peer: tuple[str, int], arrived: ClientProtocol) -> None:
        """Log a client that speaks a protocol other than Kafka's to `listener`."""
        own = self.image.brokers.get(self.broker_id)
        ports = {it.name: it.port for it in own.endpoints} if own is not None else {}
        self._wrong_port.on_kafka_port(
            arrived, peer[0], listener=listener, port=ports.get(listener), http_port=ports.get(HTTP_ENDPOINT)
        )

    def request_failed(self, api: Api, version: int, peer: tuple[str, int], error: BaseException) -> None:
        """Log an unexpected exception with its traceback, and count it: it is a bug in the broker."""
        self.metrics.api(api.key).count_error(errors.UNKNOWN_SERVER_ERROR)
        self.metrics.request_failures += 1
        self.events.failure("request failed", error, api=api.name, version=version, peer=f"{peer[0]}:{peer[1]}")

    def connection_lost(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self.memory.lost(connection)
        self.shares.connection_lost(connection)

    def tick(self) -> None:
        """
        Perform the periodic work, such as heartbeats, elections, idle blocks and checkpoints.  Called every 250 ms.
        """
        self.stall_tolerant_clock.tick()
        self.cluster.tick()
        self.controller.tick()
        self.tick_shards()
        self.membership_reconciler.tick(self.image)
        self.replica_releases.tick(self.image)
        self.leader_balancer.tick(self.image)
        self.removal_watch.tick()
        self.reported_load.tick()
        self.load_reporter.tick()
        self.rebalance.tick()
        self.awaited_transfers.tick()
        self.quorum.tick(self.shard_table.shards[METADATA_SHARD].replica)
        self.free_space.check()
        self.drain_leadership.tick()
        self.deadlines.tick()
        self.shares.tick()
        self.timers.tick()
        self.ready_loop.tick()
        self.memory.tick()
        self.history.tick()
        self.metrics.request_bytes_in_flight = self.memory.request_bytes
        self.metrics.response_bytes_unread = self.memory.unread_bytes

    def tick_shards(self) -> None:
        """
        Tick the shards.  While a shard has no leader, schedule further ticks soon: the more precisely election timeouts
        expire, the less often votes are split.
        """
        self.shard_table.tick(self.cluster.peers.alive())
        if self.shard_table.is_electing and not self._is_tick_scheduled and self.cluster.peers.links is not None:
            self._is_tick_scheduled = True
            self.machine.call_later(ELECTION_TICK_S, self._tick_shards_again)

    def _tick_shards_again(self) -> None:
        self._is_tick_scheduled = False
        self.tick_shards()

    @property
    def has_stale_metadata(self) -> bool:
        """
        Return whether other brokers may have a newer image: this broker has lost contact with the controller, and
        either a peer still has contact, or this broker is isolated and the brokers that it cannot hear may have elected
        a controller.
        """
        if not self.controller.has_lost_contact:
            return False
        return self.cluster.peers.has_controller_contact() or not self.cluster.has_quorum_contact

    # Methods of the protocol `ClusterOwner`.

    @property
    def shards(self) -> dict[ShardId, Shard]:
        return self.shard_table.shards

    @property
    def is_syncing(self) -> bool:
        return self.ready_loop.is_syncing

    @property
    def flags(self) -> int:
        """The flags in this broker's heartbeats (see `peer.frame`)."""
        drains = DRAINING if self.drain_leadership.is_draining or not self.is_ready else 0
        return drains | (HAS_CONTROLLER_CONTACT if self.controller.has_contact else 0)

    def serving_changed(self, shard: Shard) -> None:
        """Notify the parts that depend on leadership: this broker has started or stopped serving `shard` as leader."""
        if shard.shard_id == METADATA_SHARD:
            self.controller.serving_changed()
        if shard.is_serving:
            self.drain_leadership.became_leader()
        self.membership_reconciler.serving_changed()
        self.load_reporter.serving_changed(shard)
        self.coordinators.serving_changed(shard)
        self.shares.serving_changed(shard)
        self.timers.serving_changed(shard)

    def membership_changed(self, shard: Shard) -> None:
        self.load_reporter.membership_changed(shard)

    def load_heard(self, voter: ReplicaKey, load: Load) -> None:
        self.reported_load.report(voter, load)


def _queued_bytes_max(layers: BrokerLayers) -> int:
    """Return `queued.max.request.bytes`, or `REQUESTS_BYTES_MAX` if it is -1, which means "no limit" in Kafka."""
    configured = broker_int(layers, "queued.max.request.bytes")
    return configured if configured > 0 else REQUESTS_BYTES_MAX

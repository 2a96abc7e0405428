"""ControllerHost: runs the controller while this broker leads the metadata shard, and otherwise tracks contact with it.

    submit ─▶ controller.decide ─▶ records ─▶ append ─▶ replay … commit ─▶ applied to the image ─▶ response

The controller is a core in the `HostedPartition` of the metadata shard.  It begins when this broker's image, which is
its initial state, has caught up with the shard's high watermark.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tidemill.broker.controller.controller_core import ControllerCore
from tidemill.broker.controller.image_follower import ImageFollower
from tidemill.broker.coordinators.hosted_partition import HostedPartition
from tidemill.broker.machine import Machine
from tidemill.broker.peers.cluster import Cluster
from tidemill.metadata.brokers import GrowReplicas
from tidemill.metadata.controller import Command, Controller
from tidemill.metadata.result import Result
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.clock import Clock
from tidemill.model.internal_topics import InternalTopic
from tidemill.model.shard import METADATA_SHARD
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown, Pending
from tidemill.shard.shard import Shard

CONTACT_LOST_MS: Final = 3_000  # contact with the controller counts as lost after this time; elections take less


class ControllerHost:
    """
    Runs the controller on the broker that leads the metadata shard; every broker has a ControllerHost.

    Implements `PartitionOwner` for the controller's partition.
    """

    def __init__(
        self,
        follower: ImageFollower,
        cluster: Cluster,
        machine: Machine,
        *,
        broker_id: BrokerId,
        static: Mapping[str, str],
        internal_topics: tuple[InternalTopic, ...],
        stall_tolerant_clock: Clock,
    ) -> None:
        self.on_lead: Callable[[], None] = _nothing  # called when this broker becomes the controller
        self._follower = follower
        self._cluster = cluster
        self._machine = machine
        self._broker_id = broker_id
        self._static = static
        self._internal_topics = internal_topics
        self._stall_tolerant_clock = stall_tolerant_clock
        self._hosted: HostedPartition[Command, ControllerCore] | None = None  # set while this broker is the controller
        self._grown_with: frozenset[BrokerId] = frozenset()  # brokers that could take replicas at the last growth
        self._metadata_replicas = 0  # the planned ones at the last tick as the controller
        self._contact_at: int | None = None  # time of the last tick with contact; initially, of the first tick

    # Methods that start and stop the controller.

    def attach(self, shard: Shard) -> None:
        """Follow the metadata shard, which has been opened, and run the controller if the shard already serves."""
        self._follower.attach(shard)
        if shard.is_serving:
            self.serving_changed()

    def serving_changed(self) -> None:
        """Start or stop the controller: this broker has started or stopped serving the metadata shard as its leader."""
        if self._hosted is not None:
            self._hosted.drop(errors.NOT_CONTROLLER)
            self._hosted = None
        shard = self._follower.shard
        if shard is None or not shard.is_serving:
            return
        self._follower.catch_up()
        if not self._follower.is_caught_up:
            return  # this broker cannot read the log: another broker will become leader, or `tick` will try again
        self._grown_with = frozenset()
        controller = Controller(
            self._follower.image,
            broker_id=self._broker_id,
            static=self._static,
            entropy=self._machine.entropy,
            internal_topics=self._internal_topics,
        )
        core = ControllerCore(controller, self._cluster.live)
        self._hosted = HostedPartition(shard.partitions[0], core, self._machine, self)
        self._hosted.begin()
        self.on_lead()

    def tick(self) -> None:
        """
        Record whether there is contact with the controller.  On the controller, also plan more replicas of internal
        topics if brokers have become able to take them.  Called a few times a second.
        """
        if self.has_contact or self._contact_at is None:
            self._contact_at = self._stall_tolerant_clock.monotonic_ms()
        shard, image = self._follower.shard, self._follower.image
        if self._hosted is None and shard is not None and shard.is_serving:
            self.serving_changed()  # try again: the log could not be read before
        if not self.accepts_writes or not image.cluster_id:
            return
        live = self._cluster.live()
        able = frozenset(it.broker_id for it in image.registered() if it.takes_replicas and it.broker_id in live)
        replicas = image.shards[METADATA_SHARD].replicas
        # The planner gives up a replica if no broker is left for it, and one may have come since it decided that.
        has_shrunk = len(replicas) < self._metadata_replicas
        if has_shrunk or not able <= self._grown_with:
            self.submit(GrowReplicas())
        self._grown_with, self._metadata_replicas = able, len(replicas)

    # Methods that pass commands to the controller.

    @property
    def leads(self) -> bool:
        return self._hosted is not None

    @property
    def accepts_writes(self) -> bool:
        """Whether this broker is the controller and is not transferring leadership."""
        shard = self._follower.shard
        return self._hosted is not None and shard is not None and shard.accepts_writes

    def submit(self, command: Command) -> Pending[Any]:
        """
        Decide `command` on the controller, which must be this broker.  Return its response, or OUTCOME_UNKNOWN.

        The response arrives when the decision, and everything that it was based on, is committed and applied to this
        broker's image.  This applies to the response "already exists", too, because an uncommitted topic is not visible
        yet and may be lost in a crash.  If the decision appended nothing, a majority must first confirm that this
        broker is still the controller.
        """
        pending: Pending[Any] = Pending()

        def answered(outcome: Result[Any] | OutcomeUnknown) -> None:
            if outcome is OUTCOME_UNKNOWN:
                pending.complete(OUTCOME_UNKNOWN)
                return
            for warning in outcome.warnings:
                self._machine.events.warning("metadata", problem=warning)
            pending.complete(outcome.response)

        assert self._hosted is not None, "another broker is the controller"
        self._hosted.ask(command, answered)
        return pending

    def confirm_image_offset(self) -> Pending[int | OutcomeUnknown]:
        """
        Return the image's offset once a majority has confirmed that this broker is the controller.  Every change that
        was acknowledged before this call is below this offset.  Return OUTCOME_UNKNOWN if leadership is not confirmed.
        """
        pending: Pending[int | OutcomeUnknown] = Pending()
        shard = self._follower.shard
        assert shard is not None, "the metadata shard is not open"
        shard.confirm_leadership(
            lambda leads: pending.complete(self._follower.image.offset if leads else OUTCOME_UNKNOWN)
        )
        return pending

    # Properties that report contact with the controller.

    @property
    def has_contact(self) -> bool:
        """
        Whether this broker is the controller, or follows it and messages arrive in both directions.  If so, its image
        is the controller's, except for changes that are still in flight.
        """
        shard = self._follower.shard
        if shard is None or shard.replica.installing is not None or shard.replica.is_damaged:
            return False
        if shard.replica.leads:
            return self._hosted is not None
        # The leader that this replica last followed may have stepped down, and this broker may not be able to hear the
        # new one.
        leader = shard.replica.leader
        if leader is None or self._cluster.reported_leader(METADATA_SHARD) != leader.broker_id:
            return False
        return self._cluster.peers.has_two_way_contact(leader)

    @property
    def has_lost_contact(self) -> bool:
        """Whether there has been no contact with the controller for longer than an election takes."""
        now_ms = self._stall_tolerant_clock.monotonic_ms()
        return self._contact_at is not None and now_ms - self._contact_at > CONTACT_LOST_MS

    # Methods of the protocol `PartitionOwner`.

    def rejection(self, request: Command, reason: int | OutcomeUnknown) -> OutcomeUnknown:
        """
        Return OUTCOME_UNKNOWN: callers check `accepts_writes` first, so a rejection means that leadership has just been
        lost.
        """
        return OUTCOME_UNKNOWN

    def storage_problem(self) -> str | None:
        """
        Return None: the controller continues to decide while the disk is full, because metadata is small and essential.
        """
        return None

    def has_stale_metadata(self) -> bool:
        return False

    def committed(self) -> None:
        """
        Apply the committed records to the image, so that a caller that receives a reply finds the effects in the image.
        """
        self._follower.catch_up()

    def loaded(self, hosted: HostedPartition[Any, Any]) -> None:
        """Do nothing: the image was already complete when the partition began to accept requests."""


def _nothing() -> None:
    """Do nothing: the default for `on_lead`."""

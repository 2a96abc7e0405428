"""ControllerHost: the controller on the broker that leads the metadata shard, and how far other brokers are from it.

    submit ─▶ controller.decide ─▶ records ─▶ append ─▶ replay … commit ─▶ image applied ─▶ answer

The controller is a core in a `HostedPartition`, over the metadata shard.  Its state is loaded when this broker's image
has caught up with the shard's high watermark.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tidemill.broker.controller.controller_core import ControllerCore
from tidemill.broker.controller.image_follower import ImageFollower
from tidemill.broker.coordinators.hosted_partition import HostedPartition
from tidemill.broker.machine import Machine
from tidemill.metadata.brokers import GrowReplicas
from tidemill.metadata.controller import Command, Controller
from tidemill.metadata.result import Result
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.clock import Clock
from tidemill.model.internal_topics import InternalTopic
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown, Pending
from tidemill.shard.shard import Shard

STALE_MS: Final = 3_000  # without contact to a controller; elections take less


class ControllerHost:
    """One per broker, also where the metadata shard is not led; `PartitionOwner` of the controller's partition."""

    def __init__(
        self,
        follower: ImageFollower,
        machine: Machine,
        *,
        broker_id: BrokerId,
        static: Mapping[str, str],
        internal_topics: tuple[InternalTopic, ...],
        stall_tolerant_clock: Clock,
        live: Callable[[], frozenset[BrokerId]],
        hears_this: Callable[[ReplicaKey], bool],
        says_it_leads: Callable[[], BrokerId | None],
    ) -> None:
        """
        `live` returns this broker and those that are alive as far as it has heard; `hears_this`, whether a broker is
        alive and receives this broker's heartbeats; `says_it_leads`, the live broker that claims to lead the metadata.
        """
        self.on_lead: Callable[[], None] = _nothing  # called when this broker becomes the controller
        self._follower = follower
        self._machine = machine
        self._broker_id = broker_id
        self._static = static
        self._internal_topics = internal_topics
        self._stall_tolerant_clock = stall_tolerant_clock
        self._live = live
        self._hears_this = hears_this
        self._says_it_leads = says_it_leads
        self._hosted: HostedPartition[Command, ControllerCore] | None = None  # while this broker is the controller
        self._grown_with: frozenset[BrokerId] = frozenset()  # live brokers when growth was last planned
        self._contact_at: int | None = None  # last tick with contact to the controller; at first, the first tick

    # Leadership.

    def attach(self, shard: Shard) -> None:
        """The metadata shard is open: follow it, and lead if this broker is its only voter."""
        self._follower.attach(shard)
        if shard.is_serving:
            self.serving_changed()

    def serving_changed(self) -> None:
        """This broker starts to lead the metadata shard, with its term confirmed, or ceases to."""
        if self._hosted is not None:
            self._hosted.drop(errors.NOT_CONTROLLER)
            self._hosted = None
        shard = self._follower.shard
        if shard is None or not shard.is_serving:
            return
        self._follower.catch_up()
        if not self._follower.is_caught_up:
            return  # the log cannot be read here: leadership moves on, or `tick` tries again
        self._grown_with = frozenset()
        controller = Controller(
            self._follower.image,
            broker_id=self._broker_id,
            static=self._static,
            entropy=self._machine.entropy,
            internal_topics=self._internal_topics,
        )
        core = ControllerCore(controller, self._live)
        self._hosted = HostedPartition(shard.partitions[0], core, self._machine, self)
        self._hosted.begin()
        self.on_lead()

    def tick(self) -> None:
        """Called a few times a second.  Internal topics may grow onto brokers that have come or come back."""
        if self.is_current or self._contact_at is None:
            self._contact_at = self._stall_tolerant_clock.monotonic_ms()
        shard, image = self._follower.shard, self._follower.image
        if self._hosted is None and shard is not None and shard.is_serving:
            self.serving_changed()  # the log could not be read before
        if not self.accepts_writes or not image.cluster_id:
            return
        live = self._live()
        able = frozenset(it.broker_id for it in image.registered() if it.broker_id in live)
        if not able <= self._grown_with:
            self.submit(GrowReplicas())
        self._grown_with = able

    # Commands.

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
        Decide `command` on the controller, which must be here.  Returns its response, or OUTCOME_UNKNOWN.

        The response comes when the decision, and all that it was based on, is committed and applied to the image here.
        This holds for "already exists", too: the topic might not be visible yet, or vanish with a crash.  When nothing
        was appended, a majority must first confirm that this broker is still the controller.
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
        Return the image's offset when a majority has confirmed that this broker is the controller: every change that
        was acknowledged before this call lies below it.  OUTCOME_UNKNOWN: leadership was not confirmed.
        """
        pending: Pending[int | OutcomeUnknown] = Pending()
        shard = self._follower.shard
        assert shard is not None, "the metadata shard is not open"
        shard.confirm_leadership(
            lambda leads: pending.complete(self._follower.image.offset if leads else OUTCOME_UNKNOWN)
        )
        return pending

    # Contact with the controller.

    @property
    def is_current(self) -> bool:
        """Whether this broker's image matches the controller's, except for changes that have not arrived yet."""
        shard = self._follower.shard
        if shard is None or shard.replica.installing is not None or shard.replica.is_damaged:
            return False
        if shard.replica.leads:
            return self._hosted is not None
        # The leader that this replica followed last may have stepped down, and its successor may not be in contact.
        leader = shard.replica.leader
        return leader is not None and self._says_it_leads() == leader.broker_id and self._hears_this(leader)

    @property
    def is_stale(self) -> bool:
        """Whether the image has not been current for longer than an election takes: others may have a newer one."""
        return self._contact_at is not None and self._stall_tolerant_clock.monotonic_ms() - self._contact_at > STALE_MS

    # `PartitionOwner`.

    def rejection(self, request: Command, reason: int | OutcomeUnknown) -> OutcomeUnknown:
        """Callers look for the controller first (`accepts_writes`), so a rejection means that it has just been lost."""
        return OUTCOME_UNKNOWN

    def storage_problem(self) -> str | None:
        """The controller decides while the disk is full: metadata is small, and other brokers depend on it."""
        return None

    def has_stale_metadata(self) -> bool:
        return False

    def committed(self) -> None:
        """Apply the image first: the caller finds there, and in what follows from it, what its answer says."""
        self._follower.catch_up()

    def loaded(self, hosted: HostedPartition[Any, Any]) -> None:
        """The image was complete before."""


def _nothing() -> None:
    """The default of `on_lead`."""

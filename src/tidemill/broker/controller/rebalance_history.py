"""RebalanceHistory: remembers what the controller has planned lately, and writes it to the event log.

A plan is made every second.  Each step and each change of presence is logged; a refusal, when it is new or its subject
was not refused before.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from tidemill.broker.controller.rebalance_report import PresenceNote, RecentStep
from tidemill.broker.machine import Machine
from tidemill.broker.repeated_events import RepeatedEvents
from tidemill.model.broker_state import Presence
from tidemill.rebalance.plan import BEGINS, Refusal, Step
from tidemill.rebalance.presence import PresenceChange

RECENT_MAX: Final = 200


class RebalanceHistory:
    def __init__(self, machine: Machine) -> None:
        self.steps: deque[RecentStep] = deque(maxlen=RECENT_MAX)
        self.notes: deque[PresenceNote] = deque(maxlen=RECENT_MAX)
        self._machine = machine
        self._repeated = RepeatedEvents(machine.clock)
        self._refused: frozenset[str] = frozenset()  # subjects of the refusals of the last plan

    def planned(self, step: Step, problem: str | None) -> None:
        """Note a step that has been recorded, or dropped because of `problem`."""
        self.steps.append(RecentStep(self._machine.clock.wall_ms(), step, problem))
        left_out = self._repeated.occurred(("step", step.shard_id))
        if left_out is None:
            return
        if problem is None:
            self._machine.events.event("replicas planned", step=step.sentence, reason=step.reason.name.lower())
        else:
            self._machine.events.event("step dropped", step=step.sentence, problem=problem)

    def presence_changed(self, change: PresenceChange) -> None:
        self.notes.append(PresenceNote(self._machine.clock.wall_ms(), change.broker_id, change.sentence))
        if self._repeated.occurred(("presence", change.broker_id, change.presence)) is None:
            return
        log = self._machine.events.event if change.presence is Presence.ACTIVE else self._machine.events.warning
        log("broker presence", broker=change.broker_id, presence=change.presence.name.lower(), why=change.sentence)

    def refused(self, refusals: Sequence[Refusal]) -> None:
        """Note the refusals of a plan."""
        before, self._refused = self._refused, frozenset(refusal.what for refusal in refusals)
        for refusal in refusals:
            if refusal.what == BEGINS:
                continue
            if refusal.what not in before and self._repeated.occurred(("refusal", refusal.what)) is not None:
                log = self._machine.events.event if refusal.is_wish else self._machine.events.warning
                log("move refused", what=refusal.what, why=refusal.sentence)

    def failed(self, error: BaseException) -> None:
        """Log a bug in the planner.  The controller goes on, and plans anew."""
        if self._repeated.occurred(("failure", type(error))) is not None:
            self._machine.events.failure("planning failed", error)

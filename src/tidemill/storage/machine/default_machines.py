"""The shard state machines of every broker."""

from tidemill.storage.machine.producer_machine import PRODUCER_EXPIRATION_MS, producer_states
from tidemill.storage.machine.shard_machine import MachineRegistry, MachineType
from tidemill.storage.machine.share_machine import share_groups
from tidemill.storage.machine.timer_machine import timers


def default_machines(expiration_ms: int = PRODUCER_EXPIRATION_MS, *more: MachineType) -> MachineRegistry:
    """
    Return a broker's registry of machines: producer states, share groups, timers, and `more`.  A type in `more`
    replaces the one with the same number.
    """
    types = {it.number: it for it in (producer_states(expiration_ms), share_groups(), timers(), *more)}
    return MachineRegistry(types.values())

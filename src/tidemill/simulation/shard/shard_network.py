"""The network between the nodes of a simulated shard: it drops, duplicates, delays and reorders messages."""

from collections.abc import Mapping
from functools import partial
from typing import Protocol

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.message_codec import decode, encode
from tidemill.raft.messages import Message
from tidemill.simulation.shard.shard_world import ShardWorld


class Receiver(Protocol):
    @property
    def is_up(self) -> bool: ...

    @property
    def paused_until_ms(self) -> int: ...

    def receive(self, sender: ReplicaKey, message: Message | None) -> None: ...


class ShardNetwork:
    def __init__(self, world: ShardWorld, receivers: Mapping[ReplicaKey, Receiver]) -> None:
        self.receivers = receivers
        self.blocked: set[tuple[ReplicaKey, ReplicaKey]] = set()  # (sender, receiver)
        self._world = world

    def send(self, sender: ReplicaKey, receiver: ReplicaKey, message: Message | None) -> None:
        """
        Send `message`, or a heartbeat if it is None.  A message is encoded and decoded, so that nodes share no mutable
        state.
        """
        world = self._world
        chance, knobs = world.random.random, world.knobs
        if not world.is_healed and ((sender, receiver) in self.blocked or chance() < knobs.drop):
            return
        data = None if message is None else b"".join(encode(message))
        arrive = partial(self._deliver, sender, self.receivers[receiver], data)
        if world.is_healed:
            world.after(1, arrive)
            return
        for _ in range(1 + (chance() < knobs.duplicate)):
            delay_ms = 1 + int(world.random.expovariate(1 / knobs.delay_ms))
            if chance() < knobs.tail:
                delay_ms *= 50
            world.after(delay_ms, arrive)

    def _deliver(self, sender: ReplicaKey, receiver: Receiver, data: bytes | None) -> None:
        pause_ms = receiver.paused_until_ms - self._world.now_ms
        if pause_ms > 0:
            self._world.after(pause_ms, partial(self._deliver, sender, receiver, data))
        elif receiver.is_up:
            receiver.receive(sender, None if data is None else decode(memoryview(data)))

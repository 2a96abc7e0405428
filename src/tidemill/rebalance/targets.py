"""Targets: chooses the broker that takes a replica, as `metadata/placement` does, and within the limits.

The replicas of a shard go to as many racks as possible, as evenly as possible; among brokers that are equal in that,
the one that carries the fewest replicas is chosen.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.data_size import size_text
from tidemill.rebalance.accounts import Accounts
from tidemill.rebalance.broker_set import BrokerSet
from tidemill.rebalance.policy import Policy
from tidemill.rebalance.sentences import brokers_text, counted, is_or_are


class Choice(NamedTuple):
    """The chosen broker, or how many brokers were left out and why."""

    chosen: ReplicaKey | None
    looked_at: int = 0
    full: int = 0  # their disks would be fuller than the limit, or are unknown
    unmeasured: int = 0  # the part of `full` whose disks are unknown
    busy: int = 0  # they receive as many copies as the limit allows


class Targets:
    def __init__(self, brokers: BrokerSet, accounts: Accounts, policy: Policy) -> None:
        self._brokers = brokers
        self._accounts = accounts
        self._policy = policy
        self._by_rack: dict[str | None, list[tuple[int, int, BrokerId]]] = {}  # least loaded first
        for broker_id, broker in brokers.targets.items():
            self._by_rack.setdefault(broker.rack, []).append(self._load(broker_id))
        for loads in self._by_rack.values():
            loads.sort()

    def rack_counts(self, replicas: Iterable[ReplicaKey]) -> Counter[str | None]:
        of = self._brokers.racks.of
        return Counter(of.get(replica.broker_id) for replica in replicas)

    def choose(
        self,
        staying: Collection[ReplicaKey],
        size: int,
        *,
        without: Collection[BrokerId] = (),
        on_rack_max: int | None = None,
        is_limited: bool = True,
        waits_for_rack: bool = False,
    ) -> Choice:
        """Choose a broker for one more replica of `size` bytes, beside the `staying` ones.

        `without` names brokers that are not chosen.  With `on_rack_max`, the broker's rack has at most that many of the
        staying replicas.  `is_limited` obeys the limit on copies to one broker.  With `waits_for_rack`, no broker is
        chosen as long as one on a better rack only receives too many copies: RACK would soon move the replica there.
        """
        taken = {replica.broker_id for replica in staying}.union(without)
        on_rack = self.rack_counts(staying)
        best: tuple[int, int, int, BrokerId] | None = None
        busy_level: int | None = None  # the best rack with a broker that only receives too many copies
        looked_at = full = unmeasured = busy = 0
        for rack, loads in self._by_rack.items():
            level = on_rack[rack]
            if on_rack_max is not None and level > on_rack_max:
                continue
            for load in loads:
                looked_at += 1
                if best is not None and (level, *load) >= best:
                    break
                broker_id = load[2]
                if broker_id in taken:
                    continue
                broker = self._brokers.targets[broker_id]
                if not self._accounts.has_room(broker_id, broker, size):
                    full += 1
                    unmeasured += None in (broker.disk_used, broker.disk_total)
                elif is_limited and self._accounts.incoming[broker_id] >= self._policy.broker_moves_max:
                    busy += 1
                    busy_level = level if busy_level is None else min(busy_level, level)
                else:
                    best = (level, *load)
                    break
        if waits_for_rack and best is not None and busy_level is not None and busy_level < best[0]:
            best = None
        chosen = None if best is None else self._brokers.targets[best[3]].key
        return Choice(chosen, looked_at, full, unmeasured, busy)

    def problem(self, choice: Choice, replicas: Collection[ReplicaKey], size: int) -> str:
        """
        Return why no broker was chosen for a shard with these replicas, and which brokers could take one if an operator
        undrained them.
        """
        if choice.full:
            return "; ".join(self._disk_problems(choice.full - choice.unmeasured, choice.unmeasured, size))
        count = len(replicas)
        needed = "1 replica needs a broker" if count == 1 else f"{count} replicas need as many brokers"
        sentence = f"its {needed}, and {counted(len(self._brokers.targets), 'broker')} can take replicas"
        kept_out = self._brokers.kept_out(replicas)
        if kept_out:
            one = "it" if len(kept_out) == 1 else "one"
            sentence += f"; {brokers_text(kept_out)} {is_or_are(len(kept_out))} drained: undrain {one}, or add a broker"
        return sentence

    def _disk_problems(self, full: int, unmeasured: int, size: int) -> Iterator[str]:
        if full:
            disks = "the disk of " if full == 1 else "the disk of each of "
            disks += counted(full, "broker")
            yield f"with its {size_text(size)}, {disks} would be more than {self._policy.disk_percent_max} % full"
        if unmeasured:
            whose = "1 broker has not told yet how full its disk is"
            yield whose if unmeasured == 1 else f"{unmeasured} brokers have not told yet how full their disks are"

    def withdraw(self, broker_id: BrokerId) -> None:
        """Take a broker out of the order before its accounts change."""
        broker = self._brokers.targets.get(broker_id)
        if broker is not None:
            loads = self._by_rack[broker.rack]
            del loads[bisect_left(loads, self._load(broker_id))]

    def restore(self, broker_id: BrokerId) -> None:
        """Put a broker back after its accounts have changed."""
        broker = self._brokers.targets.get(broker_id)
        if broker is not None:
            insort(self._by_rack[broker.rack], self._load(broker_id))

    def _load(self, broker_id: BrokerId) -> tuple[int, int, BrokerId]:
        return self._accounts.carried[broker_id], self._accounts.led[broker_id], broker_id

"""A simulated cluster with a share group that reads the topic while faults strike, and its checks."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, Final
from unittest.mock import patch

from tidemill.broker.shares import share_host
from tidemill.broker.shares.led_share import LedShare
from tidemill.broker.shares.share_openings import shares_of
from tidemill.metadata.metadata_records import GROUP_RESOURCE
from tidemill.model import errors
from tidemill.model.back_off import NO_BACK_OFF, parse_back_off
from tidemill.model.share_group_config import ShareGroupConfig
from tidemill.shard.partition import Partition
from tidemill.share.claim import Held
from tidemill.share.partition_shares import PartitionShares
from tidemill.share.share_settings import ShareSettings
from tidemill.simulation.clients.client import Address, Client
from tidemill.simulation.clients.share_consumer import REJECT_SHARE, ShareConsumer
from tidemill.simulation.clients.share_history import ShareHistory
from tidemill.simulation.cluster import cluster
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.cluster.cluster import TOPIC, ClusterRun
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.storage.machine.share_machine import encode_shares
from tidemill.wire.messages import incremental_alter_configs

GROUP: Final = "sharers"
LIMIT: Final = 5
LOWEST_LIMIT: Final = 3
LAST_COUNT: Final = LOWEST_LIMIT - 1  # the response with the last delivery may be lost
MEMBERS: Final = 3
STATIC: Final = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "1000",
    "group.share.delivery.count.limit": str(LIMIT),
}
LOCKS_MAX: Final = 12  # so few that members often hold all of them
SET: Final = 0
WAKE_TICKS: Final = 4  # a fetch may wait beside available records after fewer ticks of its broker than this in a row
POLICY: Final = '{"kind": "linear", "first": 200, "step": 100}'


class ShareRun(ClusterRun):
    """
    Checks after every turn that starts never move back, that only leaders have leases, and that no record is delivered
    before its release time; and at the end, that every record is finished, and that all replicas have the same state.
    """

    reject_share = REJECT_SHARE
    settings: Mapping[str, str] = {}  # of the group

    def __init__(self, seed: int, knobs: ClusterKnobs, *, is_administered: bool = False) -> None:
        """
        With `is_administered`, the settings of the group change during the faults.

        Every other administered group reads only what is produced after it has begun.  It begins before anything is
        produced, so it must finish every record.
        """
        self._is_administered = is_administered
        self._begins_at_the_end = is_administered and seed % 4 == 3
        # A clock that jumps ahead delays records until the other clocks are as late, which would outlast the run.
        self._back_off = NO_BACK_OFF if knobs.clock_jump else parse_back_off(POLICY)
        self.shared = ShareHistory(LIMIT, self._term, lambda count: self._back_off.delay_ms(count, lambda: 0.0) / 1_000)
        self._latest_wall_ms = 0  # on any clock that a broker has had
        self._consumers: list[ShareConsumer] = []
        self._starts: dict[tuple[BrokerMachine, int, bytes, int, int], int] = {}
        self.compared = 0
        self.changes_of_settings = 0
        self.full = 0  # turns of a leader after which members held as many records of a partition as they may
        self._beside: dict[tuple[str, LedShare], tuple[int, int]] = {}  # the last tick, ticks in a row
        super().__init__(seed, knobs)
        for machine in self.machines:
            machine.after_turn = self._after_turn
        agree = self.check.agree
        self.check.agree = partial(self._agree, agree)  # type: ignore[method-assign]

    async def _prepare(self) -> None:
        if self._begins_at_the_end:
            client = self._new_client("first")
            await client.create_topic(TOPIC, self.knobs.partitions, min(self.knobs.brokers, 3))
            await self._join(client, "latest")
            while not all(map(self._is_open, range(self.knobs.partitions))):
                await client.back_off()
        await super()._prepare()
        if not self._begins_at_the_end:
            assert self._client is not None
            await self._join(self._client, "earliest")

    async def _join(self, client: Client, offset_reset: str) -> None:
        """Configure the group, and start its members."""
        policy = POLICY if self._back_off is not NO_BACK_OFF else ""
        settings = {"share.auto.offset.reset": offset_reset, "tidemill.share.backoff": policy, **self.settings}
        await self._configure(client, settings)
        for number in range(MEMBERS):
            member = self._new_client(f"sharer-{number}")
            consumer = ShareConsumer(member, self.shared, GROUP, TOPIC, reject_share=self.reject_share)
            self._consumers.append(consumer)
            self._in_client(consumer.run())
        if self._is_administered:
            self.shared.last_count = LAST_COUNT
            self._in_client(self._change_settings(self._new_client("group administrator"), self._fork()))

    async def _change_settings(self, client: Client, random: Random) -> None:
        """Change the settings of the group about once a second, until the faults are over."""
        while not self.faults.is_over:
            await asyncio.sleep(random.expovariate(1))
            limit = random.randint(LOWEST_LIMIT, LIMIT)
            order = random.choice(("none", "key"))
            await self._configure(client, {"share.delivery.count.limit": str(limit), "tidemill.share.order": order})
            self.changes_of_settings += 1

    async def _configure(self, client: Client, settings: Mapping[str, str]) -> None:
        resource = incremental_alter_configs.Request.Resource
        configs = [resource.Config(name=name, config_operation=SET, value=text) for name, text in settings.items()]
        request = incremental_alter_configs.Request(
            resources=[resource(resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=configs)],
            validate_only=False,
        )
        while (code := (await client.ask_any(request)).responses[0].error_code) != errors.NONE:
            assert code in errors.RETRIABLE, errors.name(code)
            await client.back_off()

    def _is_read(self) -> bool:
        """Once everything has been read, let the group finish, too."""
        if not super()._is_read():
            return False
        for consumer in self._consumers:
            consumer.accepts_everything = True
        return True

    def _agree(self, agree: Any) -> bool:
        """Return whether the replicas agree, and the group has finished every record."""
        if not agree() or not all(map(self._is_finished, range(self.knobs.partitions))):
            return False
        for number in range(self.knobs.partitions):
            states = {encode_shares(it) for it in map(shares_of, self._replicas(number)) if not it.is_unused}
            if len(states) > 1:
                raise InvariantViolation(f"partition {number}: replicas have the same entries and different shares")
            self.compared += len(states)
            deleted = self.history.partition(TOPIC, number).delete_asked
            self.shared.check_all_delivered(number, range(deleted, self._replicas(number)[0].high_watermark))
        for consumer in self._consumers:
            consumer.is_stopping = True
        return True

    def _is_open(self, number: int) -> bool:
        replicas = self._replicas(number)
        return bool(replicas) and all(shares_of(it).of_group(GROUP) is not None for it in replicas)

    def _is_finished(self, number: int) -> bool:
        for partition in self._replicas(number):
            share = shares_of(partition).of_group(GROUP)
            if share is None or share.start < partition.high_watermark:
                return False
        return True

    def _replicas(self, number: int, topic: str = TOPIC) -> list[Partition]:
        found = []
        for machine in self.machines:
            assert machine.broker is not None
            partition = machine.broker.shard_table.partition(topic, number)
            found += [] if partition is None else [partition]
        return found

    def _term(self, address: Address, number: int) -> int | None:
        """Return the term in which a broker leads a partition, if no replica has seen a newer term."""
        terms: dict[str, int] = {}
        serving: dict[str, int] = {}
        for machine in self.machines:
            partition = None if machine.broker is None else machine.broker.shard_table.partition(TOPIC, number)
            if partition is not None:
                terms[machine.name] = partition.leader_epoch
                if partition.shard.is_serving:
                    serving[machine.name] = partition.leader_epoch
        term = serving.get(address[0])
        return term if term is not None and term == max(terms.values()) else None

    def _after_turn(self, machine: BrokerMachine) -> None:
        self.check.check_after_turn(machine)
        broker = machine.broker
        if broker is None:
            return
        for number, partition in broker.shard_table.topics.get(TOPIC, {}).items():
            self._check_starts(machine, number, partition.log.topic_id, shares_of(partition))
        self._latest_wall_ms = max(self._latest_wall_ms, broker.clock.wall_ms())
        for led in broker.shares.led_shares:
            self._check_release_times(machine, led)
            if not led.partition.shard.is_serving:
                raise InvariantViolation(f"{machine.name} has leases on {led.key}, which it does not lead")
            if led.leases.held_count > led.leases.settings.locks_max:
                raise InvariantViolation(f"{machine.name} has {led.leases.held_count} locks on {led.key}")
            self.full += led.leases.held_count == led.leases.settings.locks_max
            self._check_wakes(machine, led)
            self._check_led(machine, led)

    def _check_wakes(self, machine: BrokerMachine, led: LedShare) -> None:
        """Check that no fetch waits although it could have records: a wake would have been lost."""
        checked_at, count = self._beside.get((machine.name, led), (0, 0))
        if machine.ticks == checked_at:
            return  # a paused broker does not tick; neither does it when the end of its pause is brought forward
        assert machine.broker is not None
        fetches = machine.broker.shares._waiters._queues.get(led.key, {}).values()
        end, wall = led.partition.high_watermark, machine.broker.shares.wall_ms
        is_available = (
            any(not it.is_evaluated and it.name._is_ready and led.leases.admits(it.name.member) for it in fetches)
            and not any(it.is_evaluated for it in fetches)
            and led.leases.lock_room > 0
            and led.leases.next_available(led.share.start, end, wall) is not None
        )
        self._beside[machine.name, led] = (machine.ticks, count + 1 if is_available else 0)
        if is_available and count + 1 >= WAKE_TICKS:
            raise InvariantViolation(f"{machine.name}: a fetch waits for {led.key}, which has available records")

    def _check_led(self, machine: BrokerMachine, led: LedShare) -> None:
        """Check the leases of a share after a turn."""

    def _check_release_times(self, machine: BrokerMachine, led: LedShare) -> None:
        """Check that no consumer holds a record whose release time is still to come on every clock."""
        for claim in led.leases._claims:
            if isinstance(claim.value, Held):
                for run in led.share.runs.within(claim.first, claim.end):
                    is_same = run.value.delivery_count == claim.value.delivery_count - 1
                    if is_same and run.value.release_at > self._latest_wall_ms:
                        raise InvariantViolation(
                            f"{machine.name} delivered {run[:2]} of {led.key} before the release time"
                        )

    def _check_starts(self, machine: BrokerMachine, number: int, topic_id: bytes, shares: PartitionShares) -> None:
        for share in shares.by_number.values():
            key = (machine, machine.starts, topic_id, number, share.number)
            before = self._starts.get(key, 0)
            if share.start < before:
                raise InvariantViolation(
                    f"{machine.name}: the start of share {share.number} of partition {number} moved from {before} to "
                    f"{share.start}"
                )
            self._starts[key] = share.start


def share_run(seed: int) -> ShareRun:
    return ShareRun(seed, replace(ClusterKnobs.draw(Random(seed)), wipe=0.0), is_administered=seed % 2 == 1)


def eventful_run(seed: int) -> ShareRun:
    return ShareRun(seed, eventful_knobs(seed), is_administered=seed % 2 == 1)


def eventful_knobs(seed: int) -> ClusterKnobs:
    """Return a short run of three brokers whose leaders change often, and whose processes end."""
    drawn = ClusterKnobs.draw(Random(seed), 3).without_faults()
    faults = replace(drawn, kill=0.3, pause=0.1, partition=0.2, leader_isolation=1.0, transfer_leadership=0.3)
    return replace(faults, duration_s=4, partitions=1, producers=1, pause_s=0.05)


def with_share_settings() -> AbstractContextManager[Any]:
    """Return a patch that gives all simulated brokers the settings of these runs."""
    stack = ExitStack()
    stack.enter_context(patch.object(cluster, "STATIC", {**cluster.STATIC, **STATIC}))
    few_locks = partial(_settings_with_few_locks, share_host.settings_from)
    stack.enter_context(patch.object(share_host, "settings_from", few_locks))
    return stack


def _settings_with_few_locks(original: Any, config: ShareGroupConfig) -> ShareSettings:
    settings: ShareSettings = original(config)
    return replace(settings, locks_max=LOCKS_MAX)

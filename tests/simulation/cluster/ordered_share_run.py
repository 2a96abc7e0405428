"""A simulated cluster whose share group has an order or one active member, and checks of what is in flight."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Final

from tests.simulation.cluster.share_run import ShareRun, eventful_knobs
from tidemill.batches.batch import spans
from tidemill.batches.records import read_records
from tidemill.broker.shares.led_share import LedShare
from tidemill.share.claim import Decided, Held
from tidemill.share.record_status import RecordState
from tidemill.share.share_settings import Mode, Order
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.simulation.invariant_violation import InvariantViolation

BY_KEY: Final = {"tidemill.share.order": "key", "tidemill.share.lookahead": "100"}
BY_KEY_WAITING: Final = {**BY_KEY, "tidemill.share.failover.wait": "true"}
BY_PARTITION: Final = {"tidemill.share.order": "partition"}
EXCLUSIVE: Final = {"tidemill.share.mode": "exclusive"}
READ_BYTES: Final = 1 << 20
SILENT_AFTER_S: Final = 3.0


class OrderedShareRun(ShareRun):
    """
    Checks after every turn, on every leader: one record of a key is in flight, and none before it is unfinished; or the
    records of one batch and one member; or the records of one member.
    """

    def __init__(self, seed: int, knobs: ClusterKnobs, settings: Mapping[str, str]) -> None:
        self.settings = settings
        self._keys: list[bytes | None] = []  # of the committed records of the only partition
        self._bases: list[int] = []  # the first offset of the batch of each record
        self._checked: dict[str, object] = {}
        self.changes = 0  # how often the records in flight were checked
        super().__init__(seed, knobs)
        self.shared.is_ordered = settings.get("tidemill.share.order") == "key"
        self.shared.waits_at_failover = "tidemill.share.failover.wait" in settings

    async def _prepare(self) -> None:
        await super()._prepare()
        asyncio.get_running_loop().call_later(SILENT_AFTER_S, self._silence)

    def _silence(self) -> None:
        """Let one member send no more requests, although its connections stay open."""
        self._consumers[0].is_stopping = True

    def _check_led(self, machine: BrokerMachine, led: LedShare) -> None:
        claims = [*led.leases._claims]
        if self._checked.get(machine.name) == claims:
            return
        self._checked[machine.name] = claims
        self.changes += 1
        flying = [
            offset
            for it in claims
            if isinstance(it.value, Held) or (isinstance(it.value, Decided) and not it.value.is_available)
            for offset in range(max(it.first, led.share.start), it.end)
        ]
        self._learn(led, flying)
        settings = led.leases.settings
        if settings.order is Order.KEY:
            self._check_keys(machine, led, flying)
        if settings.order is Order.PARTITION and len({self._bases[offset] for offset in flying}) > 1:
            raise InvariantViolation(f"{machine.name}: records of several batches are in flight: {flying}")
        members = {it.value.member for it in claims if isinstance(it.value, Held)}
        has_one_holder = settings.mode is Mode.EXCLUSIVE or settings.order is Order.PARTITION
        if has_one_holder and len(members) > 1:
            raise InvariantViolation(f"{machine.name}: {sorted(members)} hold records at the same time")

    def _check_keys(self, machine: BrokerMachine, led: LedShare, flying: list[int]) -> None:
        first_unfinished: dict[bytes, int] = {}
        for offset in range(led.share.start, max(flying, default=-1) + 1):
            key = self._keys[offset]
            if key is not None and led.share.runs.get(offset).state == RecordState.AVAILABLE:
                first_unfinished.setdefault(key, offset)
        for offset in flying:
            key = self._keys[offset]
            if key is not None and first_unfinished.get(key, offset) != offset:
                raise InvariantViolation(
                    f"{machine.name}: offset {offset} with the key {key!r} is in flight, and offset "
                    f"{first_unfinished[key]} is not finished"
                )

    def _learn(self, led: LedShare, flying: list[int]) -> None:
        """Read the keys of committed records up to the last one in flight."""
        while len(self._keys) <= max(flying, default=-1):
            high_watermark = led.partition.high_watermark
            read = led.partition.log.read(len(self._keys), READ_BYTES, high_watermark, may_wait=True)
            assert read is not None
            for part in read[0]:
                for span in spans(part):
                    records = read_records(part, span.position)
                    self._bases += [span.header.base_offset] * len(records)
                    self._keys += [record.key for record in records]


def ordered_run(seed: int, settings: Mapping[str, str] = BY_KEY) -> OrderedShareRun:
    keys = Random(seed).choice((1, 3, 8))
    return OrderedShareRun(seed, replace(eventful_knobs(seed), keys=keys), settings)

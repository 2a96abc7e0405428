"""Requests about the shares of a group, for `tidemill queue`.

They use Tidemill's own client, because confluent-kafka does not know them.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from tidemill.batches.batch import spans
from tidemill.batches.records import Record, read_records
from tidemill.cli.bootstrap import check_reachable, no_response
from tidemill.cli.failure import Failed
from tidemill.cli.refusal import refusal
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import from_keys
from tidemill.client.failures import ClientError, OffsetOutOfRange, RetriesExhausted, UnknownTopic
from tidemill.client.raw_fetcher import RawFetcher
from tidemill.client.share_client import OPERATOR, Delivery, Received, Resolved, ShareClient, ShareRefused, ShareState
from tidemill.model.partition import TopicPartition
from tidemill.share.acknowledgement import Acknowledgement

REQUEST_TIMEOUT_MS: Final = 30_000
RECEIVED_BYTES_MAX: Final = 16 << 20  # of one partition
OPENING_MS: Final = 1  # `Received.withheld_ms` of a leader that opens the batches of a share with an order
OPENING_PAUSE_S: Final = 0.05
OPENING_S_MAX: Final = 5.0
TURN_MS: Final = 250  # how long one of several partitions is waited for before the next
T = TypeVar("T")

Ranges = Sequence[tuple[int, int, Acknowledgement]]
"""First offset, last offset and acknowledgement type; ascending."""


class Held(NamedTuple):
    """A record that the consumer holds."""

    partition: int
    delivery: Delivery
    locked_until_ms: int  # since the epoch


class QueueAdmin:
    """
    Requests about one topic and group.  Every method raises `Failed` if a broker refuses or does not respond.
    """

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        check_reachable(bootstrap)
        self.topic = topic
        self.group = group
        self._bootstrap = bootstrap
        timeouts = dict.fromkeys(("request.timeout.ms", "default.api.timeout.ms"), str(REQUEST_TIMEOUT_MS))
        self._cluster = ClusterMetadata(from_keys({"bootstrap.servers": bootstrap, **timeouts}))
        self._shares = ShareClient(self._cluster)
        self._is_opening = False  # whether a leader was opening batches during the last look
        self.is_exclusive = False  # whether the group lets one consumer at a time receive, as of the last `receive`

    def partitions(self, wanted: int | None) -> list[int]:
        """Return the numbers of the topic's partitions, or only the wanted one."""

        def ask() -> list[int]:
            self._cluster.refresh({self.topic})
            return list(self._cluster.partitions(self.topic))

        known = self._asked(ask)
        if wanted is None:
            return known
        if wanted not in known:
            raise refusal(
                "UNKNOWN_PARTITION", f"topic {self.topic!r}", f"it has no partition {wanted}, only 0 to {known[-1]}"
            )
        return [wanted]

    def states(self, partitions: Sequence[int]) -> list[ShareState]:
        return self._asked(lambda: self._shares.describe(self.group, self.topic, partitions))

    def read_states(self, partitions: Sequence[int]) -> list[ShareState]:
        """Return the states of the partitions that the group has read.  Raise `Failed` if there are none."""
        found = [state for state in self.states(partitions) if state.start is not None]
        if not found:
            is_one_of_several = len(partitions) < len(self._cluster.partitions(self.topic))
            named = f", partition {partitions[0]}" if is_one_of_several else ""
            raise Failed(
                f"group {self.group!r} has not read topic {self.topic!r}{named}: check the names, or begin with "
                f"`tidemill queue receive {self.topic} {self.group} --as NAME`"
            )
        return found

    def peek(self, states: Iterable[ShareState], count_max: int) -> Iterator[tuple[int, Record, bool]]:
        """
        Yield (partition, record, whether its timestamp is that of the append) from the start of each share, at most
        `count_max` in total.
        """
        left = count_max
        for state in states:
            assert state.start is not None
            for record, is_log_append_time in self._records(state.partition, state.start, state.end):
                if not left:
                    return
                left -= 1
                yield state.partition.partition, record, is_log_append_time

    def _records(self, partition: TopicPartition, start: int, end: int) -> Iterator[tuple[Record, bool]]:
        batches = RawFetcher(self._cluster).batches(partition, start, end)
        while (run := self._asked(lambda: next(batches, None))) is not None:
            for position, _, header in spans(run):
                try:
                    records = read_records(run, position)
                except ValueError as problem:
                    raise self._unreadable(partition.partition, header.base_offset, problem) from problem
                for record in records:
                    if start <= record.offset < end:
                        stamped = header.is_log_append_time
                        yield record._replace(timestamp=header.max_timestamp) if stamped else record, stamped

    def receive(self, member: str, partitions: Sequence[int], count_max: int, wait_ms: int) -> list[Held]:
        """Return what the consumer holds, or acquires within `wait_ms`: at most `count_max` new records."""
        began_at = time.monotonic()
        ends_at = began_at + wait_ms / 1_000
        held = self._receive_from(member, partitions, count_max, 0)
        while not held and self._is_opening and time.monotonic() < began_at + OPENING_S_MAX:
            time.sleep(OPENING_PAUSE_S)
            held = self._receive_from(member, partitions, count_max, 0)
        turn = 0
        while not held and (left_ms := round((ends_at - time.monotonic()) * 1_000)) > 0:
            turn_ms = left_ms if len(partitions) == 1 else min(left_ms, TURN_MS)
            held = self._receive_from(member, [partitions[turn % len(partitions)]], count_max, turn_ms)
            turn += 1
        return held

    def _receive_from(self, member: str, partitions: Sequence[int], count_max: int, wait_ms: int) -> list[Held]:
        held: list[Held] = []
        self._is_opening = False
        for number in partitions:
            if len(held) >= count_max:
                break
            received = self._receive(member, number, count_max - len(held), wait_ms)
            self.is_exclusive = received.is_exclusive
            self._is_opening |= 0 < received.withheld_ms <= OPENING_MS
            locked_until_ms = round(time.time() * 1_000) + received.lock_ms
            try:
                held += [Held(number, delivery, locked_until_ms) for delivery in received.deliveries()]
            except ValueError as problem:
                raise self._unreadable(number, received.acquired[0].first, problem) from problem
        return held

    def _unreadable(self, partition: int, offset: int, problem: ValueError) -> Failed:
        return Failed(
            f"topic {self.topic!r}, partition {partition}: a batch at or after offset {offset} cannot be read: "
            f"{problem}. Finish its records with `tidemill queue ack {self.topic} {self.group} --partition {partition} "
            "--offset N-M --reject`, and with the same `--as` if they were received"
        )

    def _receive(self, member: str, number: int, count_max: int, wait_ms: int) -> Received:
        return self._asked(
            lambda: self._shares.receive(
                TopicPartition(self.topic, number),
                self.group,
                member,
                max_records=count_max,
                max_bytes=RECEIVED_BYTES_MAX,
                wait_ms=wait_ms,
            )
        )

    def resolve(self, member: str, number: int, ranges: Ranges, delay_ms: int | None) -> Resolved:
        """Resolve these records: for a consumer those that it holds, for OPERATOR those that no consumer holds."""
        partition = TopicPartition(self.topic, number)
        return self._asked(lambda: self._shares.resolve(partition, self.group, member, ranges, delay_ms=delay_ms))

    def resolve_all(self, member: str, state: ShareState, kind: Acknowledgement, delay_ms: int | None) -> Resolved:
        """Resolve all that a consumer holds of a partition, or for OPERATOR all that no consumer holds."""
        assert state.start is not None
        if member == OPERATOR:
            if state.start >= state.end:
                return Resolved(0, 0, 0)
            return self.resolve(member, state.partition.partition, [(state.start, state.end - 1, kind)], delay_ms)
        return self._asked(
            lambda: self._shares.resolve(state.partition, self.group, member, held_as=kind, delay_ms=delay_ms)
        )

    def _asked(self, ask: Callable[[], T]) -> T:
        about = f"group {self.group!r}"
        try:
            return ask()
        except ShareRefused as problem:
            raise refusal(problem.name, about, str(problem)) from problem
        except UnknownTopic as problem:
            raise refusal("UNKNOWN_TOPIC_OR_PARTITION", f"topic {self.topic!r}", str(problem)) from problem
        except RetriesExhausted as problem:
            raise no_response(self._bootstrap, str(problem)) from problem
        except OffsetOutOfRange as problem:
            raise Failed(f"{problem}: retention has just removed records; run the command again") from problem
        except ClientError as problem:
            raise Failed(f"{about}: {problem}") from problem


def state_row(admin: QueueAdmin, state: ShareState, now_ms: int) -> dict[str, Any]:
    """Return the object that `queue stats --json` prints for a partition."""
    return {
        "topic": admin.topic,
        "group": admin.group,
        "partition": state.partition.partition,
        "start": state.start,
        "end": state.end,
        "lag": state.lag,
        "available": state.available,
        "delayed": state.delayed,
        "held": state.held,
        "dead_waiting": state.archiving,
        "expired_unread": state.expired_unread,
        "oldest_age_ms": None if state.oldest_ms is None else max(now_ms - state.oldest_ms, 0),
        "blocked_by": state.blocked_by,
    }

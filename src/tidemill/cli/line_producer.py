"""A producer for lines of stdin.  It counts records that are acknowledged, refused, or not acknowledged in time."""

import json
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Node, Producer

from tidemill.cli.deadline import Deadline
from tidemill.cli.failure import Failed
from tidemill.cli.kafka import client_config, error_name
from tidemill.cli.output import counted
from tidemill.cli.topic_admin import TopicAdmin, check_partition
from tidemill.client.producer_properties import PRODUCER_PROPERTIES
from tidemill.model.topic_kind import TopicKind
from tidemill.timer.schedule import BATCH_SCHEDULES_MAX
from tidemill.timer.timer_headers import SCHEDULE
from tidemill.timer.timer_problem import timer_problem

REFUSALS_SHOWN_MAX: Final = 10  # the first refusals are printed to show the cause; further refusals are only counted
PARTITIONS_SHOWN_MAX: Final = 10  # the summary of timed-out records names at most this many partitions
FLUSH_POLL_S: Final = 0.5  # seconds per poll; Ctrl-C takes effect after at most this time
LOOKUP_TIMEOUT_S: Final = 2.0  # for looking up the kind of the topic, and the leaders of records that timed out
LOOKUP_PAUSE_S: Final = 10.0  # after a look-up of the kind without an answer, so that bad records are not slow
RECORD_BYTES_MAX: Final = 1_000_000_000  # the highest that librdkafka allows, so that only the broker's limit applies
ANY_PARTITION: Final = -1  # the partition number of a record until librdkafka has chosen a partition


class LineProducer:
    """
    Sends records and counts the results.

    The constructor raises `Failed` if the topic does not exist, or if no broker responds within the timeout.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        partition: int | None = None,
        create: bool = False,
        timeout_s: float = 30.0,
        as_json: bool = False,
    ) -> None:
        self._as_json = as_json
        self.produced_count = 0
        self.refused_count = 0
        self.timed_out: Counter[int] = Counter()  # number of records that timed out, by partition
        self._bootstrap = bootstrap
        self._topic = topic
        self._timeout_s = timeout_s
        self._partition = ANY_PARTITION if partition is None else partition
        deadline = Deadline(timeout_s)
        self._leaders = _leaders(TopicAdmin(bootstrap, deadline), topic, create=create)
        if partition is not None:
            check_partition(topic, partition, self._leaders)
        self._config = client_config(
            bootstrap,
            deadline,
            **{
                **PRODUCER_PROPERTIES,
                "linger.ms": 5,
                "message.timeout.ms": round(timeout_s * 1000),
                "message.max.bytes": RECORD_BYTES_MAX,
            },
        )
        self._producer = Producer(self._config)
        self._bounds_schedules = False
        self._is_timer_topic: bool | None = None  # None until a broker has answered
        self._next_lookup_s = 0.0

    def send(self, record: dict[str, Any], line_number: int) -> None:
        """
        Queue a record, waiting while the client's queue is full.  If the record is refused, the message names
        `line_number`.  A record with headers that no timer topic accepts is refused here, because a broker would refuse
        its batch with it.  Only brokers know the limits of the topic.
        """
        headers = record.get("headers")
        problem = timer_problem(headers, round(time.time() * 1_000)) if headers else None
        if problem is not None and self._is_for_timers():
            self.refuse(f"line {line_number}: INVALID_RECORD: {problem}")
            return
        if headers and not self._bounds_schedules and any(name == SCHEDULE for name, _ in headers):
            self._bound_schedules()

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is None:
                self.produced_count += 1
            elif error.code() == KafkaError._MSG_TIMED_OUT:
                self.timed_out[message.partition()] += 1
            else:
                is_invalid = error.code() == KafkaError.INVALID_RECORD
                self.refuse(f"line {line_number}: {error_name(error)}: {(is_invalid and problem) or error.str()}")

        while True:
            try:
                self._producer.produce(self._topic, partition=self._partition, on_delivery=delivered, **record)
            except BufferError:
                self._producer.poll(FLUSH_POLL_S)
            except KafkaException as exception:  # The client library refused the record.
                delivered(exception.args[0], None)
                return
            else:
                self._producer.poll(0)
                return

    def _bound_schedules(self) -> None:
        """
        Send no more records in a batch than a timer topic accepts schedules.  Not done before the first schedule, since
        small batches make other lines slower.  The records before it are waited for, so that the order is kept.
        """
        self.flush()
        self._producer = Producer({**self._config, "batch.num.messages": BATCH_SCHEDULES_MAX})
        self._bounds_schedules = True

    def _is_for_timers(self) -> bool:
        """
        Return whether a broker says that it is a timer topic.  If none answers, return False: then brokers refuse bad
        records themselves.  They are asked again for a record after LOOKUP_PAUSE_S.
        """
        if self._is_timer_topic is None and time.monotonic() >= self._next_lookup_s:
            with suppress(Failed):
                kind = TopicAdmin(self._bootstrap, Deadline(LOOKUP_TIMEOUT_S)).kind_of(self._topic)
                self._is_timer_topic = kind == TopicKind.TIMER
            self._next_lookup_s = time.monotonic() + LOOKUP_PAUSE_S
        return bool(self._is_timer_topic)

    def refuse(self, reason: str) -> None:
        """Count a refused record.  Print the reason to stderr for the first REFUSALS_SHOWN_MAX refusals."""
        self.refused_count += 1
        if self.refused_count <= REFUSALS_SHOWN_MAX:
            row = json.dumps({"event": "refused", "message": reason})
            print(row if self._as_json else f"tidemill: refused: {reason}", file=sys.stderr)

    def flush(self) -> None:
        """Wait until every record is acknowledged, refused or timed out."""
        while self._producer.flush(FLUSH_POLL_S):
            pass

    def report(self) -> None:
        """Print which records timed out, and the counts, to stderr."""
        if self.timed_out:
            self._report_timed_out()
        counts = {"produced": self.produced_count, "refused": self.refused_count, "timed_out": self.timed_out.total()}
        if self._as_json:
            print(json.dumps({"event": "produced", "topic": self._topic, **counts}), file=sys.stderr)
            return
        told = [f"produced {counted(self.produced_count, 'record')} to {self._topic}"]
        if self.refused_count:
            told.append(f"{self.refused_count} refused")
        if self.timed_out:
            told.append(f"{self.timed_out.total()} timed out")
        print(", ".join(told), file=sys.stderr)

    def _report_timed_out(self) -> None:
        self._look_up_leaders()
        rows = []
        for partition, count in sorted(self.timed_out.items()):
            leader = self._leaders.get(partition)
            rows.append(
                {
                    "partition": partition if partition != ANY_PARTITION else None,
                    "records": count,
                    "leader": leader.id if leader is not None else None,
                    "address": f"{leader.host}:{leader.port}" if leader is not None else None,
                }
            )
        where = "; ".join(map(self._described, rows[:PARTITIONS_SHOWN_MAX]))
        if len(rows) > PARTITIONS_SHOWN_MAX:
            where += f"; and {counted(len(rows) - PARTITIONS_SHOWN_MAX, 'more partition')}"
        records = counted(self.timed_out.total(), "record")
        message = (
            f"{records} not acknowledged within {self._timeout_s:g} s: {where}.  They may have been stored all the "
            "same.  `tidemill topics describe` shows leaders and in-sync replicas; on Tidemill, `tidemill cluster "
            "status` and each broker's /health/ready list what is degraded, such as a full disk."
        )
        row = {"event": "timed out", "topic": self._topic, "partitions": rows, "message": message}
        print(json.dumps(row) if self._as_json else f"tidemill: {message}", file=sys.stderr)

    def _described(self, row: dict[str, Any]) -> str:
        if row["partition"] is None:
            return f"{counted(row['records'], 'record')} without a partition"
        led = "no known leader" if row["leader"] is None else f"leader is broker {row['leader']} at {row['address']}"
        return f"{self._topic}-{row['partition']} ({counted(row['records'], 'record')}, {led})"

    def _look_up_leaders(self) -> None:
        """Look up the current leaders.  If no broker responds, keep the leaders that were known at the start."""
        try:
            listed = self._producer.list_topics(self._topic, timeout=LOOKUP_TIMEOUT_S)
        except KafkaException:
            return
        for it in listed.topics[self._topic].partitions.values():
            broker = listed.brokers.get(it.leader)
            self._leaders[it.id] = Node(broker.id, broker.host, broker.port) if broker is not None else None


def _leaders(admin: TopicAdmin, topic: str, *, create: bool) -> dict[int, Node | None]:
    """Return the leader of each partition.  If the topic does not exist, create it or raise `Failed`.

    Without this check, the broker might create the topic, or every record would fail only after its timeout.
    """
    try:
        return admin.leader_nodes_of(topic)
    except Failed as problem:
        if problem.name != "UNKNOWN_TOPIC_OR_PARTITION":
            raise
        if not create:
            raise Failed(f"topic {topic!r} does not exist; --create creates it", name=problem.name) from None
    try:
        admin.create(topic, None, None, {})
    except Failed as problem:
        if problem.name != "TOPIC_ALREADY_EXISTS":  # another process may have created the topic meanwhile
            raise
    return admin.leader_nodes_of_new(topic)

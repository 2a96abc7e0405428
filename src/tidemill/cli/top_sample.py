"""What `tidemill top` reads at one moment: offsets and groups over Kafka, and the brokers' counters over HTTP."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tidemill.cli.cluster_view import Row, http_address_of
from tidemill.cli.kafka import REQUEST_TIMEOUT_S, failed
from tidemill.cli.top_groups import GroupReader, GroupSample
from tidemill.cli.topic_admin import Partition, TopicAdmin
from tidemill.client.broker_http import NoResponse, Refused, ask, ask_text
from tidemill.telemetry.prometheus import counters_of

HTTP_TIMEOUT_S: Final = 1.0  # a slower broker is shown as down, because the tables are updated every second
ANSWER_TIMEOUT_S: Final = 2.0  # how long confluent-kafka waits for a broker that has just died


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSample:
    broker_id: int
    address: str
    status: str
    at: float
    counters: dict[tuple[str, str], float] | None  # by name and topic; None: the broker does not report them


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    cluster_id: str | None
    at: float  # when the offsets were read, in seconds on a monotonic clock
    brokers: list[BrokerSample]
    topics: dict[str, list[bool]]  # for each partition, whether it has a leader
    ends: dict[Partition, int]
    groups: dict[str, GroupSample]
    answered_by: int | None  # the id of the broker that listed `brokers`; None if no broker did
    notes: list[str]  # sentences that say what is missing from the sample, and why


class Sampler:
    def __init__(self, bootstrap: str, http: Sequence[str], *, with_internal: bool, is_http_required: bool) -> None:
        """
        Connect.  Raise `Failed` if no broker can be reached.  With `is_http_required`, the first `sample` raises
        NoResponse if none of the addresses in `http` responds.
        """
        self._bootstrap = bootstrap
        self._admin = TopicAdmin(bootstrap)
        self._groups = GroupReader(bootstrap)
        self._with_internal = with_internal
        self._http = [*http]  # the address to ask first, then those of the other brokers
        self._http_notes: list[str] = []  # why addresses in `http` failed before one responded
        self._is_http_required = is_http_required
        self._is_first_answer = True  # until a broker has responded over HTTP

    def sample(self) -> Sample:
        notes: list[str] = []
        try:
            metadata = self._admin.client.list_topics(timeout=REQUEST_TIMEOUT_S)
        except KafkaException as exception:
            raise failed(exception.args[0], "topics", self._bootstrap) from exception
        topics = {
            name: [metadata.topics[name].partitions[it].leader >= 0 for it in sorted(metadata.topics[name].partitions)]
            for name in sorted(metadata.topics)
            if self._with_internal or not name.startswith("__")
        }
        ends = self._ends(
            [(name, it) for name, led in topics.items() for it, has_leader in enumerate(led) if has_leader]
        )
        at = time.monotonic()
        groups = self._groups.read(notes)
        brokers, answered_by = self._brokers(metadata.cluster_id, notes)
        return Sample(
            cluster_id=metadata.cluster_id,
            at=at,
            brokers=brokers
            or [
                BrokerSample(broker_id=it.id, address=f"{it.host}:{it.port}", status="up", at=at, counters=None)
                for it in sorted(metadata.brokers.values(), key=lambda it: it.id)
            ],
            topics=topics,
            ends=ends,
            groups=groups,
            answered_by=answered_by,
            notes=notes,
        )

    def _ends(self, partitions: list[Partition]) -> dict[Partition, int]:
        """Return the end offsets, except those of partitions whose leader has just changed or does not respond."""
        if not partitions:
            return {}
        futures = self._admin.client.list_offsets(
            {TopicPartition(name, partition): OffsetSpec.latest() for name, partition in partitions},
            request_timeout=ANSWER_TIMEOUT_S,
        )
        ends = {}
        for asked, future in futures.items():
            try:
                ends[asked.topic, asked.partition] = future.result(timeout=REQUEST_TIMEOUT_S).offset
            except KafkaException:
                continue
        return ends

    def _brokers(self, cluster_id: str | None, notes: list[str]) -> tuple[list[BrokerSample], int | None]:
        """
        Return a sample of each broker and the id of the broker that listed them, or no samples and None if none
        responds.
        """
        silent, problems = [], []
        for address in self._http:
            try:
                cluster = ask(address, "/v1/cluster", timeout_s=HTTP_TIMEOUT_S)
                if cluster["cluster_id"] != cluster_id:
                    problems.append(f"{address} is a broker of another cluster")
                    continue
                rows = ask(address, "/v1/brokers", timeout_s=HTTP_TIMEOUT_S)["brokers"]
            except NoResponse as error:
                silent.append(str(error))
                problems.append(f"no broker's HTTP listener at {error}")
            except Refused as error:
                problems.append(str(error))
            else:
                if self._is_first_answer:
                    self._is_first_answer = False
                    self._http_notes = [f"{problem}; asked the next address" for problem in problems]
                notes += self._http_notes
                answered_by = cluster["answered_by"]
                addresses = {
                    row["broker_id"]: address if row["broker_id"] == answered_by else http_address_of(row)
                    for row in rows
                }
                self._http = [address, *(it for it in addresses.values() if it is not None and it != address)]
                return [_broker(row, addresses[row["broker_id"]]) for row in rows], answered_by
        if self._is_http_required and self._is_first_answer and len(silent) == len(self._http):
            raise NoResponse("; ".join(silent))
        missing = "; ".join(problems)
        notes.append(f"no rates of brokers, bytes and journals: {missing}; set --http HOST:PORT[,…] or TIDEMILL_HTTP")
        return [], None


def _broker(row: Row, address: str | None) -> BrokerSample:
    counters = None
    if not row["is_live"]:
        status = "down"
    elif address is None:
        status = "up, but not reporting: it announces no HTTP listener"
    else:
        try:
            counters = counters_of(ask_text(address, "/metrics", timeout_s=HTTP_TIMEOUT_S))
            status = "up"
        except NoResponse:
            status = "up, but its HTTP listener does not respond"
        except (Refused, ValueError) as problem:
            status = f"up, but not reporting: {problem}"
    return BrokerSample(
        broker_id=row["broker_id"], address=address or "-", status=status, at=time.monotonic(), counters=counters
    )

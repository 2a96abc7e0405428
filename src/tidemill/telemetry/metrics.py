"""A broker's own counters: plain numbers on slots, read when somebody scrapes them."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class JournalCounters:
    blocks: int = 0
    bytes: int = 0
    checkpoints: int = 0


@dataclass(slots=True)
class RequestCounters:
    requests: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    protocol_errors: int = 0


@dataclass(slots=True)
class RecordCounters:
    produced_records: int = 0
    produced_bytes: int = 0
    fetched_bytes: int = 0


@dataclass(slots=True)
class BrokerMetrics:
    journal: JournalCounters = field(default_factory=JournalCounters)
    requests: RequestCounters = field(default_factory=RequestCounters)
    records: RecordCounters = field(default_factory=RecordCounters)
    by_api: dict[int, int] = field(default_factory=dict)  # API key → requests
    connections: int = 0

"""The metrics of one broker: plain numbers in slots, which hot paths increment and each scrape reads.

There are no locks: each counter is written by only one thread, the event loop's or the journal's, and a reader may see
a slightly older value.  Two brokers in one process have separate instances.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from tidemill.telemetry.histogram import LATENCY_BOUNDS_MS, SYNC_BOUNDS_US, Histogram
from tidemill.telemetry.queue_counters import CountersByQueue
from tidemill.telemetry.timer_counters import CountersByTimerTopic
from tidemill.telemetry.topic_counters import CountersByTopic


class QueueGauges(NamedTuple):
    """The state of a queue (a share group's use of a topic) in the partitions that a broker leads."""

    group: str
    topic: str
    available: int = 0  # records that a consumer could acquire now
    held: int = 0  # records that consumers hold
    delayed: int = 0  # records that wait for their release time
    dead_waiting: int = 0  # dead records whose dead letter is not written yet
    expired_unread: int = 0  # offsets that retention removed before they were finished
    tracked_runs: int = 0


class TimerGauges(NamedTuple):
    """What waits of a timer topic in the partitions that a broker leads."""

    topic: str
    waiting: int
    waiting_bytes: int  # about
    next_due: float  # in seconds since the epoch; infinite if nothing waits
    clock_behind: float  # seconds by which the release clock is behind this broker's; infinite while it is not known


class RebalanceGauges(NamedTuple):
    """What the controller knows of re-placement.  All other brokers have the values below."""

    status: str | None = None
    moves: int = 0  # under way
    missing_bytes: int = 0  # that their new replicas lack
    refusals: int = 0  # of the last plan
    brokers: Sequence[tuple[str, int]] = ()  # state and number of brokers in it


class ApiCounters:
    """The counters of one Kafka API."""

    __slots__ = ("errors", "latencies", "requests")

    def __init__(self) -> None:
        self.requests = 0  # requests that have begun
        self.errors: dict[int, int] = {}  # error code → occurrences in responses, counted as in Kafka
        # For each answered request: the time from when it begins until its response is ready.
        self.latencies = Histogram(LATENCY_BOUNDS_MS, per_second=1_000)

    def count_error(self, error_code: int) -> None:
        """Count an occurrence of an error code in a response."""
        self.errors[error_code] = self.errors.get(error_code, 0) + 1


class Metrics:
    """The counters and histograms of a broker, which never decrease, and its gauges."""

    __slots__ = (
        "apis",
        "by_queue",
        "by_timer_topic",
        "by_topic",
        "bytes_received",
        "bytes_sent",
        "checkpoint_seconds",
        "checkpoints",
        "connections",
        "connections_accepted",
        "connections_refused",
        "corrupt_batches",
        "damaged_partitions",
        "disk_free_bytes",
        "disk_needed_bytes",
        "fetch_bytes",
        "fetch_cache_misses",
        "group_lags",
        "group_offsets_unmeasured",
        "groups",
        "has_quorum_contact",
        "is_controller",
        "is_disk_full",
        "is_draining",
        "journal_blocks",
        "journal_bytes",
        "journal_sync_seconds",
        "leaderless_partitions",
        "led_partitions",
        "letters_dropped",
        "letters_lost",
        "letters_written",
        "log_start_moves",
        "loop_lag_seconds_max",
        "loop_stalls",
        "members",
        "partitions",
        "peer_clock_offsets",
        "produce_batches",
        "produce_bytes",
        "produce_records",
        "produce_refusals",
        "protocol_errors",
        "queues",
        "rebalance",
        "rebalance_moved_bytes",
        "replicas_released",
        "request_bytes_in_flight",
        "request_failures",
        "response_bytes_unread",
        "shards",
        "share_fetches_waiting",
        "share_sessions",
        "shares",
        "shares_unmeasured",
        "timers",
        "topics",
        "under_min_insync_partitions",
        "under_replicated_partitions",
        "uptime_seconds",
    )

    def __init__(self, topics_max: int = 0) -> None:
        """`topics_max` limits the numbers of topics, queues and timer topics that have counters of their own."""
        # Counters: all start at zero when the broker starts.
        self.by_queue = CountersByQueue(topics_max)
        self.by_timer_topic = CountersByTimerTopic(topics_max)
        self.by_topic = CountersByTopic(topics_max)
        self.apis: defaultdict[int, ApiCounters] = defaultdict(ApiCounters)  # API key → counters
        self.bytes_received = 0
        self.bytes_sent = 0
        self.connections_accepted = 0
        self.connections_refused = 0  # connections closed because of max.connections and related limits
        self.protocol_errors = 0  # malformed frames; their connections were closed
        self.request_failures = 0  # requests that failed because of a bug; the event log has the tracebacks
        self.loop_stalls = 0  # how often the event loop was blocked for longer than the watchdog allows
        self.produce_records = 0
        self.produce_batches = 0
        self.produce_bytes = 0
        self.produce_refusals = 0  # partitions of Produce requests answered with an error
        self.fetch_bytes = 0  # fetched records and batches are not counted: a fetch does not parse them
        self.fetch_cache_misses = 0  # reads that had to wait for the disk
        self.corrupt_batches = 0  # batches that did not match their CRC when read; they are never served
        self.journal_blocks = 0
        self.journal_bytes = 0
        self.checkpoints = 0
        self.checkpoint_seconds = 0.0
        self.log_start_moves = 0
        self.letters_written = 0
        self.letters_dropped = 0  # dead records that were archived without a dead letter
        self.letters_lost = 0  # dead records that retention has removed before their letters were written
        self.rebalance_moved_bytes = 0  # sent to members of shards that do not vote yet
        self.replicas_released = 0
        # Histograms.
        self.journal_sync_seconds = Histogram(SYNC_BOUNDS_US, per_second=1_000_000)
        # Gauges: current values.
        self.connections = 0
        self.request_bytes_in_flight = 0
        self.response_bytes_unread = 0
        self.loop_lag_seconds_max = 0.0
        self.topics = 0
        self.partitions = 0
        self.shards = 0
        self.groups = 0
        self.members = 0
        self.group_lags: Sequence[tuple[str, str, int]] = ()  # group, topic and lag in records
        self.group_offsets_unmeasured = 0
        self.peer_clock_offsets: Sequence[tuple[int, float]] = ()  # broker id and seconds, positive: ahead of this one
        self.queues: Sequence[QueueGauges] = ()
        self.timers: Sequence[TimerGauges] = ()
        self.rebalance = RebalanceGauges()
        self.shares = 0
        self.shares_unmeasured = 0
        self.share_sessions = 0
        self.share_fetches_waiting = 0
        self.led_partitions = 0
        self.leaderless_partitions = 0
        self.under_replicated_partitions = 0
        self.under_min_insync_partitions = 0
        self.damaged_partitions = 0
        self.is_controller = False
        self.has_quorum_contact = False
        self.is_draining = False
        self.uptime_seconds = 0.0
        self.disk_free_bytes = 0
        self.disk_needed_bytes = 0
        self.is_disk_full = False

    def api(self, api_key: int) -> ApiCounters:
        """Return the counters of one API.  Connections keep the object, to avoid a lookup per request."""
        return self.apis[api_key]

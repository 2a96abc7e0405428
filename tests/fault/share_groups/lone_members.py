"""Members without a share session that renew the locks of what they hold before they acknowledge it."""

import random
import threading
import time

from tests.fault.share_groups.ledger import Ledger, RecordId
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import from_keys
from tidemill.client.share_client import Acknowledgement, Received, ShareClient
from tidemill.model.partition import TopicPartition

RECORDS_MAX = 100
BYTES_MAX = 1 << 20
WAIT_MS = 200
RENEWING = 0.3  # the fraction of receipts whose locks are renewed


class LoneMember(threading.Thread):
    """Receives and accepts records of one partition after the other."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, partitions: int, seed: int, ledger: Ledger, lock_s: float
    ) -> None:
        super().__init__(name=f"lone-{seed}", daemon=True)
        self._brokers = bootstrap
        self._group = group
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self._random = random.Random(seed)
        self._ledger = ledger
        self._lock_s = lock_s
        self.is_stopping = False
        self.error: BaseException | None = None

    def run(self) -> None:
        cluster = ClusterMetadata(from_keys({"bootstrap.servers": self._brokers}))
        try:
            client = ShareClient(cluster)
            while not self.is_stopping:
                self._treat(client, self._random.choice(self._partitions))
        except BaseException as error:
            self.error = error
            raise
        finally:
            cluster.close()

    def _treat(self, client: ShareClient, partition: TopicPartition) -> None:
        received = client.receive(
            partition, self._group, self.name, max_records=RECORDS_MAX, max_bytes=BYTES_MAX, wait_ms=WAIT_MS
        )
        counts: dict[RecordId, int] = {
            (partition.partition, it.record.offset): it.delivery_count for it in received.deliveries()
        }
        if not counts:
            return
        held_since = time.monotonic()
        self._ledger.delivered([*counts.items()])
        if self._random.random() < RENEWING:
            held_since = self._renew(client, received, held_since)
        decisions = dict.fromkeys(counts, Acknowledgement.ACCEPT)
        self._ledger.decided(decisions, counts)
        resolved = self._resolve(client, received, Acknowledgement.ACCEPT)
        is_late = resolved < len(decisions) or time.monotonic() - held_since > self._lock_s / 2
        self._ledger.confirmed(decisions, is_late=is_late)

    def _renew(self, client: ShareClient, received: Received, held_since: float) -> float:
        """Hold the records for longer than one lock lasts.  Return since when the locks are certainly held."""
        for _ in range(3):
            time.sleep(0.45 * self._lock_s)
            began = time.monotonic()
            if self._resolve(client, received, Acknowledgement.RENEW) < _count(received):
                return held_since  # some locks had expired: the machine was slow, or the leader has changed
            held_since = began
            self._ledger.note_renewed(_count(received))
        return held_since

    def _resolve(self, client: ShareClient, received: Received, kind: Acknowledgement) -> int:
        """Acknowledge what was received, and return for how many records this had an effect."""
        batches = [(it.first, it.last, kind) for it in received.acquired]
        return client.resolve(received.partition, self._group, self.name, batches).resolved


def _count(received: Received) -> int:
    return sum(it.last - it.first + 1 for it in received.acquired)

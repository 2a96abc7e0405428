"""Sends what user code has decided about acquired records.  It runs in executors."""

import logging
from collections import defaultdict
from typing import NamedTuple

from tidemill.client.connection_settings import ConnectionSettings
from tidemill.client.share_client import Acknowledgement
from tidemill.columnar import receipts
from tidemill.columnar.group_locks import GroupLocks
from tidemill.columnar.range_reader import cluster_of_process
from tidemill.columnar.share_batch import Holder

_LOG = logging.getLogger(__name__)


class _Decision(NamedTuple):
    group: str
    holder: Holder
    kind: Acknowledgement
    delay_ms: int | None


class Decisions:
    """Collects decisions, and sends them together."""

    def __init__(self, connection: ConnectionSettings) -> None:
        self._connection = connection
        self._offsets: defaultdict[_Decision, set[int]] = defaultdict(set)

    def reject(self, receipt: str | None) -> None:
        """Raise ValueError if the text is not a receipt."""
        self._add(receipt, Acknowledgement.REJECT, None)

    def retry(self, receipt: str | None, delay_ms: int | None) -> None:
        """Raise ValueError if the text is not a receipt."""
        self._add(receipt, Acknowledgement.RELEASE, delay_ms)

    def send(self) -> int:
        """
        Send the decisions, and return for how many records they hold.  They are durable when this returns.

        Records that their member no longer holds are left as they are: they were decided before, or their locks have
        ended and they are delivered again.  Raise ClientError if the broker cannot be reached or refuses.
        """
        resolved = 0
        while self._offsets:
            decision, offsets = next(iter(self._offsets.items()))
            locks = GroupLocks(cluster_of_process(self._connection), decision.group)
            count = locks.resolve(decision.holder, offsets, decision.kind, decision.delay_ms)
            if count < len(offsets):
                _LOG.warning(
                    "%d of %d records of %s were not held any more: they were decided before, or are delivered again",
                    len(offsets) - count,
                    len(offsets),
                    decision.holder.partition,
                )
            resolved += count
            del self._offsets[decision]
        return resolved

    def _add(self, text: str | None, kind: Acknowledgement, delay_ms: int | None) -> None:
        group, holder, offset = receipts.parse(text)
        self._offsets[_Decision(group, holder, kind, delay_ms)].add(offset)

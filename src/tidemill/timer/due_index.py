"""The index by due time."""

import heapq
from collections.abc import Iterable

from tidemill.timer.due_row import DueRow, unpack_rows
from tidemill.timer.waiting_set import WaitingSet


class DueIndex:
    def __init__(self, waiting: WaitingSet) -> None:
        self._waiting = waiting
        self._all: dict[tuple[int, int], DueRow] = {}
        self._heap: list[tuple[int, int]] = []
        self._leads = False

    def add(self, rows: bytes) -> None:
        for row in unpack_rows(rows):
            self._all[row.due_ms, row.arrival] = row
            if self._leads:
                heapq.heappush(self._heap, (row.due_ms, row.arrival))

    def lead(self) -> None:
        self._leads = True
        self._heap = sorted(key for key in self._all)

    def follow(self) -> None:
        self._leads = False
        self._heap = []

    def wanted(self) -> None:
        return None

    def take(self, limit_ms: int, records_max: int, bytes_max: int) -> list[DueRow]:
        found: list[DueRow] = []
        size = 0
        while self._clean() and self._heap[0][0] <= limit_ms and len(found) < records_max and size < bytes_max:
            row = self._all[heapq.heappop(self._heap)]
            if found and found[-1].arrival == row.arrival and found[-1].due_ms == row.due_ms:
                continue
            found.append(row)
            size += row.size
        return found

    def put_back(self, rows: Iterable[DueRow]) -> None:
        for row in rows:
            heapq.heappush(self._heap, (row.due_ms, row.arrival))

    def next_due(self) -> int | None:
        return self._heap[0][0] if self._clean() else None

    def _clean(self) -> bool:
        while self._heap:
            due, arrival = self._heap[0]
            if self._waiting.waits(arrival) and self._waiting.due_ms(arrival, due) == due:
                return True
            heapq.heappop(self._heap)
            self._all.pop((due, arrival), None)
        return False

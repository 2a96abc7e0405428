"""ControllerCore: adapts the controller to `ReplicatedCore`.

The controller starts from the committed image instead of replaying the log, because every broker has that image.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from tidemill.coordinator.result import Key, Result, Waiter
from tidemill.coordinator.timestamps import Timestamps
from tidemill.metadata.controller import Command, Controller
from tidemill.metadata.metadata_records import Record, decode, encode
from tidemill.model.broker_id import BrokerId


class ControllerCore:
    """The controller as a `ReplicatedCore`.  The reply to a command is the `metadata.result.Result` of its decision."""

    is_atomic = True  # part of a decision may be invalid on its own, such as a topic without its shards

    def __init__(self, controller: Controller, live: Callable[[], frozenset[BrokerId]]) -> None:
        """`live` returns the ids of this broker and of all live peers."""
        self._controller = controller
        self._live = live

    def encode(self, record: Record) -> tuple[None, bytes]:
        return None, encode(record)

    def decode(self, key: bytes | None, value: bytes | None) -> Record:
        return decode(value or b"")

    def replay(self, records: Sequence[Record], end_offset: int) -> None:
        self._controller.replay(records, end_offset=end_offset)

    def loaded(self, timestamps: Timestamps) -> Result[Record]:
        return Result()

    def decide(self, request: Command, waiter: Waiter, timestamps: Timestamps) -> Result[Record]:
        decided = self._controller.decide(request, timestamps.append_time, live=self._live())
        return Result(records=decided.records, replies=((waiter, decided),))

    def expire(self, key: Key, timestamps: Timestamps) -> Result[Record]:
        raise AssertionError("the controller sets no deadlines")

    def drain(self, error_code: int) -> tuple[tuple[Waiter, object], ...]:
        return ()  # no waiter is kept: the decision on a command includes its reply

    def is_refused_when_full(self, request: Command) -> bool:
        return True

    def needs_current_metadata(self, request: Command) -> bool:
        return False  # the controller decides from its own image, which contains every appended record

    def snapshot(self, first_offset: int, append_time: int) -> Iterator[Sequence[Record]]:
        """
        Yield the snapshot as one chunk.  If there were two, the second could override records that were decided after
        the first was yielded.
        """
        yield list(chain.from_iterable(self._controller.snapshot()))

    @property
    def snapshot_size(self) -> int:
        image = self._controller.image
        return len(image.topics) + len(image.shards) + len(image.configs)

    @property
    def snapshot_first_offset(self) -> int | None:
        return None  # the image does not record where a snapshot starts; the log start moves after the next snapshot

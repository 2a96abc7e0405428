"""The messages of a topic that a share group delivers, for threads."""

from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

from tidemill.sdk.async_queue import AsyncQueue
from tidemill.sdk.durations import Duration
from tidemill.sdk.message import Message

Result = TypeVar("Result")


class Queue:
    """
    An iterator over messages; threads may share it.

    Each message is the consumer's alone until it is finished; its lease is renewed in the background.  `close` releases
    the messages that are not finished.
    """

    def __init__(self, queue: AsyncQueue, call: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.topic = queue.topic
        self.group = queue.group
        self._queue = queue
        self._call = call

    def receive(self, max: int = 1, *, wait: Duration = "20s") -> list[Message]:
        """
        Return up to `max` messages, 1 to 500, as soon as there are any, or none after `wait`.

        Raise RequestRefused, or BrokersUnavailable if no broker answers.
        """
        return [Message(it, self._call) for it in self._call(self._queue.receive(max, wait=wait))]

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        """
        Return the next message, and wait for it.

        The iteration ends when the queue is closed, or when no message came for its `idle` time.  While no broker
        answers, it goes on, and logs a warning.
        """
        message = self._call(_next_or_none(self._queue))
        if message is None:
            raise StopIteration
        return Message(message, self._call)

    def ack(self, messages: Iterable[Message]) -> None:
        """Finish messages together.  Raise the first problem that one of them has, after all have been sent."""
        self._call(self._queue.ack(messages))

    def describe(self) -> dict[str, Any]:
        """Return the partitions of the queue with their counts, as `GET /v1/queues/{topic}/{group}` does."""
        found: dict[str, Any] = self._call(self._queue.describe())
        return found

    def close(self) -> None:
        """Release the messages that are not finished, and end the iteration."""
        self._call(self._queue.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _next_or_none(queue: AsyncQueue) -> Any:
    return await anext(queue, None)

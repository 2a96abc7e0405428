"""Bounds the total memory of all client connections: decides which of them must wait or be closed at a bound.

    arriving   incomplete frames                           ┐ together at most `requests_bytes_max`
    working    requests whose bytes an append still needs  ┘   (queued.max.request.bytes)
    reading    reserved for reads of pending Fetches       ┐ together about `RESPONSES_BYTES_MAX`
    unread     responses that clients have not read        ┘

At the first bound, the broker stops reading from connections.  If `working` alone reaches the bound, the broker stops
reading from all connections until the journal has room again.  Otherwise, it stops reading from connections that are
receiving a large frame, except the one whose frame began first, so that one frame can always complete.  That connection
is closed if its frame takes longer than `ARRIVAL_MS_MAX`.

The closer the memory is to the second bound, the smaller the responses to Fetch are.  At the bound, no further request
is started for a client with unread responses, and connections that have read nothing for `UNREAD_MS_MAX` are closed,
starting with those that have the most unread bytes.
"""

from typing import Final, Protocol

from tidemill.model.clock import Clock

RESPONSES_BYTES_MAX: Final = 256 << 20  # about five of the largest responses that clients request by default
RESPONSE_BYTES_MIN: Final = 64 << 10  # a response may take this much even at the bound, or one larger batch
SHARE: Final = 4  # one response takes at most a quarter of the remaining room
ARRIVAL_MS_MAX: Final = 10_000  # for one frame while memory is short: enough for about 100 MB at 10 MB/s
UNREAD_MS_MAX: Final = 10_000  # longer than a client's garbage collection pauses
REFRESH_MS: Final = 20  # minimum interval between updates of the unread bytes of all connections


class Holder(Protocol):
    """The part of a connection that `ConnectionMemory` uses."""

    @property
    def unread_bytes(self) -> int:
        """The number of response bytes that have not been sent yet."""
        ...

    def room_again(self) -> None:
        """
        Try to read again, but in a later turn of the event loop, because reading may change this `ConnectionMemory`.
        """
        ...

    def give_up(self, reason: str) -> None:
        """Close the connection immediately, because of `reason`."""
        ...


class _Held:
    __slots__ = ("bytes", "since_ms")

    def __init__(self, size: int, since_ms: int) -> None:
        self.bytes = size
        self.since_ms = since_ms


class ConnectionMemory:
    def __init__(self, requests_bytes_max: int, clock: Clock) -> None:
        self.requests_bytes_max = requests_bytes_max
        self.working_bytes = 0
        self.arriving_bytes = 0
        self.reading_bytes = 0
        self.unread_bytes = 0
        self._clock = clock
        self._arriving: dict[Holder, _Held] = {}  # incomplete frames by connection, in the order in which they began
        self._unread: dict[Holder, _Held] = {}
        self._waiting: dict[Holder, None] = {}
        self._refreshed_at = clock.monotonic_ms()

    # Methods that count the memory of requests.

    @property
    def request_bytes(self) -> int:
        return self.working_bytes + self.arriving_bytes

    def begin_work(self, size: int) -> None:
        self.working_bytes += size

    def end_work(self, size: int) -> None:
        if not self._waiting:
            self.working_bytes -= size
            return
        before = self._state()
        self.working_bytes -= size
        self._wake_since(before)

    def arriving(self, holder: Holder, size: int) -> None:
        """Set how many bytes a connection keeps for an incomplete frame; 0 if it has no incomplete frame."""
        held = self._arriving.get(holder)
        if size and held is None:
            self._arriving[holder] = _Held(size, self._clock.monotonic_ms())
            self.arriving_bytes += size
        elif held is not None and held.bytes != size:
            before = self._state()
            self.arriving_bytes += size - held.bytes
            held.bytes = size
            if not size:
                del self._arriving[holder]
            self._wake_since(before)

    @property
    def has_room(self) -> bool:
        """Whether both bounds leave room, so that no connection has to wait."""
        return (
            self.working_bytes + self.arriving_bytes < self.requests_bytes_max
            and self.reading_bytes + self.unread_bytes < RESPONSES_BYTES_MAX
        )

    def may_receive(self, holder: Holder) -> bool:
        if self.working_bytes >= self.requests_bytes_max:
            return False
        if self.request_bytes < self.requests_bytes_max or holder not in self._arriving:
            return True
        return holder is next(iter(self._arriving))

    def wait(self, holder: Holder) -> None:
        """Call the connection's `room_again` once, when its `may_receive` or `may_answer` may have changed."""
        self._waiting[holder] = None

    def _state(self) -> tuple[bool, bool, Holder | None]:
        """Return the values that `may_receive` depends on."""
        bytes_max = self.requests_bytes_max
        return (
            self.working_bytes >= bytes_max,
            self.request_bytes >= bytes_max,
            next(iter(self._arriving), None),
        )

    def _wake_since(self, before: tuple[bool, bool, Holder | None]) -> None:
        if self._waiting and self._state() != before:
            self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for holder in waiting:
            holder.room_again()

    # Methods that count the memory of responses.

    def unread(self, holder: Holder, size: int) -> None:
        """Set how many response bytes have not been sent to this client yet."""
        held = self._unread.get(holder)
        if held is None:
            if size:
                self._unread[holder] = _Held(size, self._clock.monotonic_ms())
                self.unread_bytes += size
            return
        self.unread_bytes += size - held.bytes
        if size < held.bytes:
            held.since_ms = self._clock.monotonic_ms()
        held.bytes = size
        if not size:
            del self._unread[holder]

    def begin_read(self, size: int) -> None:
        """
        Reserve `size` bytes for reads.  `end_read` releases them once the response is counted as unread or dropped.
        """
        self.reading_bytes += size

    def end_read(self, size: int) -> None:
        self.reading_bytes -= size

    def may_answer(self, holder: Holder) -> bool:
        """Return whether another request from this client may be started."""
        if self.reading_bytes + self.unread_bytes < RESPONSES_BYTES_MAX:
            return True
        return holder not in self._unread

    def response_room(self) -> int:
        """Return how many bytes of records the next response may contain."""
        held = self.reading_bytes + self.unread_bytes
        if self.unread_bytes * 2 > RESPONSES_BYTES_MAX and self._clock.monotonic_ms() - self._refreshed_at > REFRESH_MS:
            self._refresh()
            held = self.reading_bytes + self.unread_bytes
        return max(RESPONSE_BYTES_MIN, (RESPONSES_BYTES_MAX - held) // SHARE)

    def _refresh(self) -> None:
        self._refreshed_at = self._clock.monotonic_ms()
        for holder in [*self._unread]:
            self.unread(holder, holder.unread_bytes)

    # Methods that handle ticks and closed connections.

    def tick(self) -> None:
        """Close connections that have held memory for too long.  Called a few times a second."""
        self._refresh()
        now = self._clock.monotonic_ms()
        while self.request_bytes >= self.requests_bytes_max:
            first = next(iter(self._arriving), None)
            if first is None or now - self._arriving[first].since_ms < ARRIVAL_MS_MAX:
                break
            self.lost(first)
            first.give_up("its request arrives too slowly, and other connections need the memory")
        if self.unread_bytes >= RESPONSES_BYTES_MAX:
            stuck = [holder for holder, held in self._unread.items() if now - held.since_ms >= UNREAD_MS_MAX]
            for holder in sorted(stuck, key=self._unread_of, reverse=True):
                if self.unread_bytes < RESPONSES_BYTES_MAX:
                    break
                self.lost(holder)
                holder.give_up("it does not read its responses, and other connections need the memory")

        self._wake()  # each tick wakes the waiting connections, because sockets do not report that they have sent bytes

    def _unread_of(self, holder: Holder) -> int:
        return self._unread[holder].bytes

    def lost(self, holder: Holder) -> None:
        """Forget a closed connection.  Its requests in progress release their bytes themselves."""
        self._waiting.pop(holder, None)
        self.arriving(holder, 0)
        self.unread(holder, 0)

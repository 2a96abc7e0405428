"""Fetch sessions: the partitions that a client fetches, kept between its requests (KIP-227).

    full request (id 0, epoch 0)  ─▶ a new session, whose id is returned; every partition is in the response
    incremental (id, epoch + 1)   ─▶ changes are applied; only changed partitions are in the response
    id 0, epoch −1                ─▶ no session
    id, epoch −1                  ─▶ the session ends

The number of sessions is bounded.  At the bound, a new session replaces the least recently used one, but only if that
one has not been used for two minutes; otherwise, the new client is served without a session.  This keeps clients from
evicting each other in turn, as KIP-227 requires.  The number of partitions in all sessions is bounded in the same way.
A single session has at most `SESSION_PARTITIONS_MAX` partitions.
"""

from typing import Final

from tidemill.model import errors
from tidemill.model.entropy import Entropy
from tidemill.wire.messages.fetch import Request

EVICTION_MS_MIN: Final = 120_000  # Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS
PARTITIONS_MAX: Final = 200_000  # in all sessions together: about 80 MB
SESSION_PARTITIONS_MAX: Final = 50_000  # in one session; a client with more partitions gets no session
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
EPOCH_MAX: Final = (1 << 31) - 1

FetchKey = tuple[str, bytes, int]  # topic name, topic id, partition


class Wanted:
    """A partition that a client fetches: the fields of its request, and the offsets in the last response."""

    __slots__ = ("bounds", "bytes_max", "fetch_offset", "last_fetched_epoch", "leader_epoch")

    def __init__(self, asked: Request.Topic.Partition) -> None:
        # The high watermark, last stable offset and log start offset in the last response; None before the first one.
        self.bounds: tuple[int, int, int] | None = None
        self.update(asked)

    def update(self, asked: Request.Topic.Partition) -> None:
        self.fetch_offset = asked.fetch_offset
        self.bytes_max = asked.partition_max_bytes
        self.leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch


class FetchSession:
    __slots__ = ("epoch", "is_incremental", "session_id", "used_at_ms", "wanted")

    def __init__(self, session_id: int, wanted: dict[FetchKey, Wanted]) -> None:
        self.session_id = session_id
        self.used_at_ms = 0
        self.epoch = 1  # the session epoch expected in the next request
        self.is_incremental = False  # whether the current request is incremental
        self.wanted = wanted


class FetchSessions:
    """All fetch sessions of this broker, by session id, least recently used first."""

    def __init__(self, entropy: Entropy, sessions_max: int) -> None:
        self._entropy = entropy
        self._sessions_max = sessions_max
        self._sessions: dict[int, FetchSession] = {}
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def session_for(self, request: Request, now_ms: int) -> FetchSession | int:
        """
        Return the session for `request`, or an error code.  A session with id 0 ends with this request.  `now_ms` is
        monotonic.
        """
        session_id, epoch = request.session_id, request.session_epoch
        if epoch == FINAL_EPOCH:
            self._end(session_id)
            return FetchSession(0, _wanted_in(request))
        if epoch == INITIAL_EPOCH:
            self._end(session_id)
            return self._begin(_wanted_in(request), now_ms)
        session = self._end(session_id)
        if session is None:
            return errors.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            self._keep(session, now_ms)
            return errors.INVALID_FETCH_SESSION_EPOCH
        _apply(session, request)
        if not self._keep(session, now_ms):
            return errors.FETCH_SESSION_ID_NOT_FOUND
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        session.is_incremental = True
        return session

    def _begin(self, wanted: dict[FetchKey, Wanted], now_ms: int) -> FetchSession:
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = int.from_bytes(self._entropy.random_bytes(4)) & EPOCH_MAX
        session = FetchSession(session_id, wanted)
        return session if wanted and self._keep(session, now_ms) else FetchSession(0, wanted)

    def _keep(self, session: FetchSession, now_ms: int) -> bool:
        """Store the session as the most recently used one.  Return False if there is no room for it."""
        count = len(session.wanted)
        if count > SESSION_PARTITIONS_MAX or not self._has_room(count, now_ms):
            return False
        session.used_at_ms = now_ms
        self._sessions[session.session_id] = session
        self._partition_count += count
        return True

    def _has_room(self, partition_count: int, now_ms: int) -> bool:
        """
        Evict old sessions as necessary.  Return whether there is room for a session with `partition_count` partitions.
        """
        while len(self._sessions) >= self._sessions_max or self._partition_count + partition_count > PARTITIONS_MAX:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.used_at_ms < EVICTION_MS_MIN:
                return False
            self._end(oldest.session_id)
        return True

    def _end(self, session_id: int) -> FetchSession | None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session.wanted)
        return session


def _wanted_in(request: Request) -> dict[FetchKey, Wanted]:
    return {
        (topic.topic, topic.topic_id, asked.partition): Wanted(asked)
        for topic in request.topics
        for asked in topic.partitions
    }


def _apply(session: FetchSession, request: Request) -> None:
    wanted = session.wanted
    for forgotten in request.forgotten_topics_data:
        for number in forgotten.partitions:
            wanted.pop((forgotten.topic, forgotten.topic_id, number), None)
    for topic in request.topics:
        for asked in topic.partitions:
            key = (topic.topic, topic.topic_id, asked.partition)
            known = wanted.get(key)
            if known is None:
                wanted[key] = Wanted(asked)
            else:
                known.update(asked)

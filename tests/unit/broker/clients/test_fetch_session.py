"""Fetch sessions remember which partitions clients fetch, within bounds (KIP-227)."""

import pytest

from tests.unit.broker.broker_world import CountingEntropy
from tidemill.broker.clients import fetch_session
from tidemill.broker.clients.fetch_session import EPOCH_MAX, EVICTION_MS_MIN, FetchSession, FetchSessions
from tidemill.model import errors
from tidemill.wire.messages.fetch import Request


def request(session_id: int = 0, epoch: int = 0, *numbers: int) -> Request:
    wanted = [Request.Topic.Partition(partition=number, fetch_offset=0, partition_max_bytes=1) for number in numbers]
    topics = [Request.Topic(topic="flights", partitions=wanted)] if wanted else []
    return Request(max_wait_ms=0, min_bytes=0, session_id=session_id, session_epoch=epoch, topics=topics)


def begun(sessions: FetchSessions, now_ms: int = 0) -> FetchSession:
    session = sessions.session_for(request(0, 0, 1, 2), now_ms)
    assert isinstance(session, FetchSession)
    return session


def test_a_session_keeps_its_partitions() -> None:
    """
    A session keeps its partitions, so the next request names only those that have changed.
    """
    sessions = FetchSessions(CountingEntropy(), 10)
    session_id = begun(sessions).session_id

    session = sessions.session_for(request(session_id, 1, 3), 0)

    assert isinstance(session, FetchSession)
    assert ([1, 2, 3], True) == ([number for _, _, number in session.wanted], session.is_incremental)


def test_an_epoch_out_of_order_is_refused() -> None:
    """
    An epoch out of order is refused, because it shows that a request was lost or arrived twice.
    """
    sessions = FetchSessions(CountingEntropy(), 10)
    session_id = begun(sessions).session_id

    codes = [sessions.session_for(request(*asked), 0) for asked in ((session_id, 2), (session_id + 1, 1))]

    assert [errors.INVALID_FETCH_SESSION_EPOCH, errors.FETCH_SESSION_ID_NOT_FOUND] == codes


def test_a_client_is_served_without_a_session_when_there_is_no_room() -> None:
    """
    If all sessions are in use, a new client is served without a session.  A session may be evicted for it once it has
    been unused for two minutes.
    """
    sessions = FetchSessions(CountingEntropy(), 2)
    first, second = begun(sessions), begun(sessions)
    later = EVICTION_MS_MIN - 1
    sessions.session_for(request(first.session_id, 1), later)

    early, in_time = begun(sessions, later), begun(sessions, later + 1)

    assert (0, True) == (early.session_id, in_time.session_id != 0)
    assert errors.FETCH_SESSION_ID_NOT_FOUND == sessions.session_for(request(second.session_id, 1), later)
    assert isinstance(sessions.session_for(request(first.session_id, 2), later), FetchSession)


def test_sessions_can_be_switched_off() -> None:
    """
    Setting max.incremental.fetch.session.cache.slots=0 switches sessions off.
    """
    sessions = FetchSessions(CountingEntropy(), 0)

    assert 0 == begun(sessions).session_id


def test_an_incremental_request_changes_the_partitions() -> None:
    """
    An incremental request adds or updates the partitions that it names and removes those that it forgets; the session's
    other partitions stay.
    """
    sessions = FetchSessions(CountingEntropy(), 10)
    session_id = begun(sessions).session_id
    changes = request(session_id, 1, 2, 3)
    changes.topics[0].partitions[0].fetch_offset = 7
    changes.forgotten_topics_data = [Request.ForgottenTopic(topic="flights", partitions=(1,))]

    session = sessions.session_for(changes, 0)

    assert isinstance(session, FetchSession)
    assert {2: 7, 3: 0} == {key[2]: it.fetch_offset for key, it in session.wanted.items()}


def test_the_final_epoch_ends_a_session() -> None:
    """
    The request that ends the session is still served in full, like a request without a session.
    """
    sessions = FetchSessions(CountingEntropy(), 10)
    session_id = begun(sessions).session_id

    last = sessions.session_for(request(session_id, -1, 4), 0)

    assert isinstance(last, FetchSession)
    assert (0, 0, [4]) == (last.session_id, len(sessions), [number for _, _, number in last.wanted])


def test_epochs_wrap_and_skip_zero() -> None:
    """
    Epochs wrap to 1, because epoch 0 would begin a new session.
    """
    sessions = FetchSessions(CountingEntropy(), 10)
    session = begun(sessions)
    session.epoch = EPOCH_MAX

    sessions.session_for(request(session.session_id, EPOCH_MAX), 0)

    assert 1 == session.epoch


def test_the_partitions_of_one_session_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A client that fetches too many partitions gets no session, and continues to send full requests.  An incremental
    request that adds too many is refused, and its session ends.
    """
    monkeypatch.setattr(fetch_session, "SESSION_PARTITIONS_MAX", 3)
    sessions = FetchSessions(CountingEntropy(), 10)
    small = begun(sessions)
    large = sessions.session_for(request(0, 0, 1, 2, 3, 4), 0)

    refused = sessions.session_for(request(small.session_id, 1, 3, 4), 0)

    assert isinstance(large, FetchSession)
    assert (0, errors.FETCH_SESSION_ID_NOT_FOUND, 0) == (large.session_id, refused, len(sessions))


def test_the_partitions_of_all_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    At the bound on the partitions of all sessions, sessions that have been unused for two minutes are evicted, and
    sessions in use stay.
    """
    monkeypatch.setattr(fetch_session, "PARTITIONS_MAX", 5)
    sessions = FetchSessions(CountingEntropy(), 10)
    begun(sessions), begun(sessions)

    early = begun(sessions, EVICTION_MS_MIN - 1)
    late = begun(sessions, EVICTION_MS_MIN)

    assert (0, True, 2) == (early.session_id, late.session_id > 0, len(sessions))

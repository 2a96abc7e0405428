"""Share sessions: epochs, partitions, limits, and connections that close."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.model import errors
from tidemill.model.errors import KafkaError
from tidemill.model.topic import TopicId
from tidemill.share.share_session import EPOCH_MAX, FINAL_EPOCH, PartitionKey, ShareSession, ShareSessions

TOPIC = TopicId(b"t" * 16)
A, B, C = [(TOPIC, partition) for partition in range(3)]


class Broker:
    """A broker's share sessions.  By default, requests come from member `m` of group `g` over connection 1."""

    def __init__(self, sessions_max: int = 10, partitions_max: int = 100) -> None:
        self.sessions = ShareSessions(sessions_max, partitions_max)

    def fetch(
        self,
        epoch: int,
        *wanted: PartitionKey,
        member: str = "m",
        connection: int = 1,
        forgotten: tuple[PartitionKey, ...] = (),
        has_acknowledgements: bool = False,
    ) -> ShareSession:
        return self.sessions.fetch(
            "g",
            member,
            epoch,
            connection=connection,
            wanted=wanted,
            forgotten=forgotten,
            has_acknowledgements=has_acknowledgements,
        )

    def acknowledge(self, epoch: int, member: str = "m", connection: int = 1) -> ShareSession:
        return self.sessions.acknowledge("g", member, epoch, connection=connection)

    def fetch_refused(self, epoch: int, *wanted: PartitionKey, member: str = "m", acknowledges: bool = False) -> int:
        with pytest.raises(KafkaError) as refused:
            self.fetch(epoch, *wanted, member=member, has_acknowledgements=acknowledges)
        return refused.value.error_code

    def acknowledge_refused(self, epoch: int) -> int:
        with pytest.raises(KafkaError) as refused:
            self.acknowledge(epoch)
        return refused.value.error_code


def test_both_requests_advance_one_epoch() -> None:
    """ShareFetch and ShareAcknowledge advance the same session epoch, and a request with any other epoch is refused."""
    broker = Broker()
    opened = broker.fetch(0, A)
    assert opened is broker.acknowledge(1)
    assert opened is broker.fetch(2)

    for wrong in (1, 2, 4, -2):
        assert errors.INVALID_SHARE_SESSION_EPOCH == broker.fetch_refused(wrong)
        assert errors.INVALID_SHARE_SESSION_EPOCH == broker.acknowledge_refused(wrong)

    assert opened is broker.acknowledge(3)


def test_the_epoch_continues_at_one_after_the_largest() -> None:
    """The largest session epoch is followed by 1, because a request with epoch 0 would open another session."""
    broker = Broker()
    broker.fetch(0, A).epoch = EPOCH_MAX - 1

    broker.fetch(EPOCH_MAX)

    assert 1 == broker.fetch(1).epoch


def test_a_session_must_be_opened_by_a_fetch() -> None:
    """
    Only a ShareFetch with epoch 0 opens a session.  Without a session, requests with other epochs are refused; a
    ShareAcknowledge with epoch 0 is always refused.
    """
    broker = Broker()
    for epoch in (FINAL_EPOCH, 1, 7):
        assert errors.SHARE_SESSION_NOT_FOUND == broker.fetch_refused(epoch)
        assert errors.SHARE_SESSION_NOT_FOUND == broker.acknowledge_refused(epoch)

    assert errors.INVALID_SHARE_SESSION_EPOCH == broker.acknowledge_refused(0)
    broker.fetch(0, A)
    assert errors.INVALID_SHARE_SESSION_EPOCH == broker.acknowledge_refused(0)


def test_acknowledgements_do_not_come_with_a_new_session() -> None:
    """
    A ShareFetch that opens a session and contains acknowledgements is refused, and the member's earlier session stays
    open.
    """
    broker = Broker()
    session = broker.fetch(0, A)

    assert errors.INVALID_REQUEST == broker.fetch_refused(0, A, acknowledges=True)

    assert session is broker.fetch(1)


@pytest.mark.parametrize("request_name", ["fetch", "acknowledge"])
def test_the_final_epoch_closes_the_session(request_name: str) -> None:
    """
    A request with the final epoch closes the session, whose `used` partitions the caller must release.  The session is
    then marked as closed, so that a fetch that still waits acquires nothing.
    """
    broker = Broker()
    session = broker.fetch(0, A, B)

    closed = broker.fetch(FINAL_EPOCH) if request_name == "fetch" else broker.acknowledge(FINAL_EPOCH)

    assert session is closed and not session.is_open
    assert [A, B] == list(closed.used)
    assert 0 == len(broker.sessions)
    assert [] == broker.sessions.disconnected(1)


def test_a_full_broker_refuses_a_new_session_only() -> None:
    """
    A broker with the maximum number of sessions refuses a new one until another is closed, but a member may replace its
    own.
    """
    broker = Broker(sessions_max=2)
    broker.fetch(0, A, member="a")
    broker.fetch(0, A, member="b")

    assert errors.SHARE_SESSION_LIMIT_REACHED == broker.fetch_refused(0, A, member="c")
    broker.fetch(0, A, member="a")
    broker.fetch(FINAL_EPOCH, member="b")
    broker.fetch(0, A, member="c")


def test_a_refused_replacement_leaves_the_old_session() -> None:
    """
    The limit on partitions applies to all sessions of a broker together.  A request that would exceed it is refused
    before it changes or closes the member's session.
    """
    broker = Broker(partitions_max=3)
    session = broker.fetch(0, A)
    broker.fetch(0, A, member="b")

    assert errors.SHARE_SESSION_LIMIT_REACHED == broker.fetch_refused(0, A, B, C)
    assert errors.SHARE_SESSION_LIMIT_REACHED == broker.fetch_refused(1, B, C)
    assert session is broker.fetch(1, A, B)
    assert errors.SHARE_SESSION_LIMIT_REACHED == broker.fetch_refused(2, C)
    broker.sessions.disconnected(1)
    assert [A, B, C] == list(broker.fetch(0, A, B, C).wanted)


def test_forgotten_partitions_are_fetched_no_more() -> None:
    """
    A partition that a request forgets is no longer fetched, even if the request also contains acknowledgements for it.
    The member may still hold its records, so they are released when the session ends.
    """
    broker = Broker()
    session = broker.fetch(0, A, B)

    broker.fetch(1, B, C, forgotten=(B,))

    assert [A, C] == list(session.wanted)
    assert [A, B, C] == list(session.used)


def test_each_fetch_begins_at_another_partition() -> None:
    """
    Each ShareFetch of a session begins at the next partition, even if the member sends a ShareAcknowledge after every
    ShareFetch.
    """
    broker = Broker()
    first = []
    for turn in range(4):
        session = broker.fetch(2 * turn, A, B)
        assert {A, B} == set(session.rotated())
        first.append(session.rotated()[0])
        broker.acknowledge(2 * turn + 1)

    assert [A, B, A, B] == first
    assert [] == broker.fetch(8, forgotten=(A, B)).rotated()


def test_a_closed_connection_ends_all_its_sessions() -> None:
    """
    A closed connection ends the sessions of all members that use it; several members may share a connection, for
    example behind a proxy.
    """
    broker = Broker()
    sessions = [broker.fetch(0, A, member=member) for member in "ab"]
    other = broker.fetch(0, A, member="c", connection=2)

    assert sessions == broker.sessions.disconnected(1)

    assert [False, False, True] == [session.is_open for session in (*sessions, other)]
    assert [] == broker.sessions.disconnected(1)
    assert other is broker.fetch(1, member="c", connection=2)


def test_an_old_connection_does_not_close_a_newer_session() -> None:
    """
    A member may reconnect and open a new session before the broker notices that its old connection is closed.  The end
    of the old connection then does not close the new session (KAFKA-19950).
    """
    broker = Broker()
    old = broker.fetch(0, A, connection=1)
    new = broker.fetch(0, B, connection=2)
    assert not old.is_open

    assert [] == broker.sessions.disconnected(1)

    assert new is broker.fetch(1, connection=2)
    assert [new] == broker.sessions.disconnected(2)
    assert [A, B] == list(new.used), "the records of the old session are released as well"


def test_a_session_follows_its_member_to_another_connection() -> None:
    """
    If a member continues its session over a new connection, the end of the old connection does not close the session.
    """
    broker = Broker()
    session = broker.fetch(0, A, connection=1)
    broker.acknowledge(1, connection=2)

    assert [] == broker.sessions.disconnected(1)
    assert [session] == broker.sessions.disconnected(2)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ofacd"), st.sampled_from("mn"), st.integers(1, 2), st.sets(st.integers(0, 3), max_size=3)
        ),
        max_size=40,
    )
)
def test_sessions_are_those_that_were_opened_and_not_ended(steps: list[tuple[str, str, int, set[int]]]) -> None:
    """
    After any requests and disconnects, the open sessions and their connections are those in a model.  When a session
    ends, it lists every partition that it has ever fetched.
    """
    broker = Broker(sessions_max=2, partitions_max=1_000)
    model: dict[str, tuple[int, set[PartitionKey]]] = {}
    for kind, member, connection, numbers in steps:
        partitions = {(TOPIC, number) for number in numbers}
        expected = broker.sessions._sessions[("g", member)].next_epoch if member in model else 1
        match kind:
            case "o":
                broker.fetch(0, *partitions, member=member, connection=connection)
                model[member] = connection, model.get(member, (0, set()))[1] | partitions
            case "f" if member in model:
                broker.fetch(expected, *partitions, member=member, connection=connection)
                model[member] = connection, model[member][1] | partitions
            case "a" if member in model:
                broker.acknowledge(expected, member, connection)
                model[member] = connection, model[member][1]
            case "c" if member in model:
                assert model.pop(member)[1] == broker.fetch(FINAL_EPOCH, member=member).used.keys()
            case "d":
                ended = {one.member: set(one.used) for one in broker.sessions.disconnected(connection)}
                assert {name: used for name, (bound, used) in model.items() if bound == connection} == ended
                model = {name: kept for name, kept in model.items() if kept[0] != connection}
        assert len(model) == len(broker.sessions)
        assert sum(len(used) for _, used in model.values()) == broker.sessions._partition_count

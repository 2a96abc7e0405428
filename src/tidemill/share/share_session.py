"""Share sessions: the partitions that a member of a share group fetches from this broker, kept between its requests.

    epoch 0      opens a session, or replaces the member's session
    epoch + 1    the next request of the session; after 2^31 - 1 comes 1
    epoch -1     closes the session

ShareFetch and ShareAcknowledge requests advance the same epoch.  A session belongs to the connection of its last
request: when that connection closes, the session ends.  When a session ends, the caller releases the records that the
member holds.  A replaced session does not end in this sense: the member may still process its records, and acknowledge
them in the new session (as in Kafka).

The caller answers SHARE_SESSION_LIMIT_REACHED only after the request's max_wait_ms, so that the client does not retry
in a busy loop.
"""

from collections.abc import Hashable, Iterable
from typing import Final

from tidemill.model import errors
from tidemill.model.errors import KafkaError
from tidemill.model.topic import TopicId

PartitionKey = tuple[TopicId, int]

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = (1 << 31) - 1
PARTITIONS_MAX: Final = 200_000
"""The limit on the partitions in all sessions, which bounds their memory.  A request for more is refused."""


class ShareSession:
    """The partitions that a member fetches."""

    __slots__ = ("_fetch_count", "connection", "epoch", "group", "is_open", "member", "used", "wanted")

    def __init__(self, group: str, member: str, connection: Hashable) -> None:
        self.group = group
        self.member = member
        self.connection = connection
        self.epoch = INITIAL_EPOCH  # the session epoch in the last request
        self.is_open = True  # a waiting fetch of a session that is not open any more must not acquire records
        self.wanted: dict[PartitionKey, None] = {}  # the partitions to fetch, in the order in which they were added
        self.used: dict[PartitionKey, None] = {}  # all partitions of which the member may hold records
        self._fetch_count = 0

    @property
    def next_epoch(self) -> int:
        return 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def rotated(self) -> list[PartitionKey]:
        """
        Return the partitions in the order in which the current ShareFetch reads them.

        Each fetch begins at another partition, so that none is starved by a limit of the request.  Kafka begins at the
        session epoch modulo the number of partitions.  But a consumer that alternates between ShareFetch and
        ShareAcknowledge has only odd epochs when it fetches, and would always begin at the same one of two partitions.
        """
        wanted = list(self.wanted)
        at = (self._fetch_count - 1) % len(wanted) if wanted else 0
        return wanted[at:] + wanted[:at]

    def _fetch(self, wanted: Iterable[PartitionKey], forgotten: Iterable[PartitionKey]) -> None:
        """
        Apply the changes of a ShareFetch.  A forgotten partition may also be wanted, because it has acknowledgements.
        """
        self._fetch_count += 1
        added = dict.fromkeys(wanted)
        self.wanted |= added
        self.used |= added
        for key in forgotten:
            self.wanted.pop(key, None)


class ShareSessions:
    """The sessions on a broker, by group and member.  Errors are raised as KafkaError."""

    def __init__(self, sessions_max: int, partitions_max: int = PARTITIONS_MAX) -> None:
        self._sessions_max = sessions_max
        self._partitions_max = partitions_max
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._of_connection: dict[Hashable, dict[ShareSession, None]] = {}
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def fetch(
        self,
        group: str,
        member: str,
        epoch: int,
        *,
        connection: Hashable,
        wanted: Iterable[PartitionKey] = (),
        forgotten: Iterable[PartitionKey] = (),
        has_acknowledgements: bool = False,
    ) -> ShareSession:
        """
        Return the session of a ShareFetch.

        With the final epoch, the session is closed: the caller applies the acknowledgements of the request, acquires
        nothing, and then releases the member's records.
        """
        if epoch == INITIAL_EPOCH:
            if has_acknowledgements:
                raise KafkaError(errors.INVALID_REQUEST, "a ShareFetch with epoch 0 must not have acknowledgements")
            return self._open(ShareSession(group, member, connection), wanted)
        session = self._find(group, member, epoch)
        if epoch == FINAL_EPOCH:
            return self._end(session)
        wanted = list(wanted)
        self._check_room(len(set(wanted) - session.used.keys()))
        self._partition_count -= len(session.used)
        session._fetch(wanted, forgotten)
        self._partition_count += len(session.used)
        return self._advance(session, connection)

    def acknowledge(self, group: str, member: str, epoch: int, *, connection: Hashable) -> ShareSession:
        """Return the session of a ShareAcknowledge.  With the final epoch, it is closed, as by `fetch`."""
        if epoch == INITIAL_EPOCH:
            raise KafkaError(errors.INVALID_SHARE_SESSION_EPOCH, "a ShareAcknowledge cannot open a share session")
        session = self._find(group, member, epoch)
        return self._end(session) if epoch == FINAL_EPOCH else self._advance(session, connection)

    def disconnected(self, connection: Hashable) -> list[ShareSession]:
        """
        Close the sessions of a connection and return them; the caller releases their members' records.

        A session that has been replaced, or used over another connection since, stays open.
        """
        return [self._end(session) for session in list(self._of_connection.get(connection, ()))]

    def _open(self, session: ShareSession, wanted: Iterable[PartitionKey]) -> ShareSession:
        old = self._sessions.get((session.group, session.member))
        if old is not None:
            session.used |= old.used  # the member may still hold records that it has acquired in the old session
        elif len(self._sessions) >= self._sessions_max:
            raise KafkaError(
                errors.SHARE_SESSION_LIMIT_REACHED,
                f"the broker has {len(self._sessions)} share sessions: raise group.share.max.share.sessions",
            )
        session._fetch(wanted, ())
        self._check_room(len(session.used) - len(old.used if old is not None else ()))
        if old is not None:
            self._end(old)
        self._partition_count += len(session.used)
        self._sessions[session.group, session.member] = session
        self._bind(session)
        return session

    def _find(self, group: str, member: str, epoch: int) -> ShareSession:
        session = self._sessions.get((group, member))
        if session is None:
            raise KafkaError(errors.SHARE_SESSION_NOT_FOUND, f"member {member} of group {group} has no share session")
        if epoch not in (FINAL_EPOCH, session.next_epoch):
            raise KafkaError(
                errors.INVALID_SHARE_SESSION_EPOCH, f"the share session epoch is {epoch}; expected {session.next_epoch}"
            )
        return session

    def _advance(self, session: ShareSession, connection: Hashable) -> ShareSession:
        session.epoch = session.next_epoch
        if connection != session.connection:
            self._unbind(session)
            session.connection = connection
            self._bind(session)
        return session

    def _check_room(self, added: int) -> None:
        count = self._partition_count + added
        if count > self._partitions_max:
            raise KafkaError(
                errors.SHARE_SESSION_LIMIT_REACHED,
                f"the share sessions of the broker would have {count} partitions; at most {self._partitions_max}",
            )

    def _end(self, session: ShareSession) -> ShareSession:
        session.is_open = False
        del self._sessions[session.group, session.member]
        self._partition_count -= len(session.used)
        self._unbind(session)
        return session

    def _bind(self, session: ShareSession) -> None:
        self._of_connection.setdefault(session.connection, {})[session] = None

    def _unbind(self, session: ShareSession) -> None:
        sessions = self._of_connection[session.connection]
        del sessions[session]
        if not sessions:
            del self._of_connection[session.connection]

"""What a replica asks of its shell, in the order the shell must do it."""

from dataclasses import dataclass

from tidemill.model.broker_id import Voter
from tidemill.raft.entry import Entry

Message = object  # what replicas exchange; replication between brokers gives it a shape


@dataclass(slots=True)
class Vote:
    """The newest term this replica knows, and whom it votes for in it.  On disk before anybody hears of it."""

    term: int
    voted_for: Voter | None


@dataclass(slots=True)
class Ready:
    """One turn's work."""

    appends: tuple[
        Message, ...
    ] = ()  # 1. a leader's AppendEntries: may leave at once, the leader's own sync runs beside them
    vote: Vote | None = None  # 2. to the journal, with
    truncate_from: int | None = None  #    the first index that is gone, and
    entries: list[Entry] | None = None  #    these, in one sync for all shards
    messages: tuple[Message, ...] = ()  # 3. votes and acknowledgements: only after 2 is durable

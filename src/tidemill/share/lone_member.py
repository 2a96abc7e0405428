"""Names of consumers without a share session, as `Leases` knows them.

A consumer that resolves records by their offsets has one name.  A consumer with receipts has a name for each of its
receive requests: the name ends with the request's lease.
"""

from typing import Final

_MARK: Final = "\0"  # no name of a member with a session begins with it, so the end of a session releases nothing here


def member_without_session(consumer: str, lease: int = 0) -> str:
    """Return the name of a consumer, or of one of its receive requests."""
    return f"{_MARK}{consumer}{_MARK}{lease:x}" if lease else _MARK + consumer


def consumer_of(member: str) -> str:
    """Return the same name for all receive requests of a consumer, and any other name as it is."""
    return _MARK + member[1:].partition(_MARK)[0] if member.startswith(_MARK) else member


def lease_of(member: str) -> int:
    """Return the lease at the end of a name; 0 if there is none."""
    lease = member[1:].partition(_MARK)[2] if member.startswith(_MARK) else ""
    return int(lease, 16) if lease else 0


def shown_name(member: str) -> str:
    """Return the name under which a consumer is known to its users, whether it has a session or not."""
    return consumer_of(member).removeprefix(_MARK)

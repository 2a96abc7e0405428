"""Majorities."""

from collections.abc import Collection, Iterable, Mapping

from tidemill.model.broker_id import ReplicaKey


def majority(voters: Collection[ReplicaKey]) -> int:
    return len(voters) // 2 + 1


def has_majority(voters: Collection[ReplicaKey], agreeing: Iterable[ReplicaKey]) -> bool:
    """Each voter counts once, and nobody else."""
    agreeing = set(agreeing)
    return sum(voter in agreeing for voter in voters) >= majority(voters)


def cannot_win(voters: Collection[ReplicaKey], refusing: Iterable[ReplicaKey]) -> bool:
    """So many have refused that no majority is left."""
    refusing = set(refusing)
    return sum(voter in refusing for voter in voters) > len(voters) - majority(voters)


def reached_by_majority(voters: Collection[ReplicaKey], reached: Mapping[ReplicaKey, int]) -> int:
    """The greatest number that a majority of the voters has reached; who is not in `reached` is at 0."""
    ranked = sorted((reached.get(voter, 0) for voter in voters), reverse=True)
    return ranked[majority(voters) - 1]

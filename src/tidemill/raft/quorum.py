"""Majorities among voters."""

from collections.abc import Collection, Iterable, Mapping

from tidemill.model.broker_id import ReplicaKey


def majority(voters: Collection[ReplicaKey]) -> int:
    return len(voters) // 2 + 1


def has_majority(voters: Collection[ReplicaKey], agreeing: Iterable[ReplicaKey]) -> bool:
    """Return whether a majority of `voters` is in `agreeing`; duplicates and other members do not count."""
    agreeing = set(agreeing)
    return sum(voter in agreeing for voter in voters) >= majority(voters)


def cannot_win(voters: Collection[ReplicaKey], refusing: Iterable[ReplicaKey]) -> bool:
    """Return whether so many of `voters` are in `refusing` that the others cannot form a majority."""
    refusing = set(refusing)
    return sum(voter in refusing for voter in voters) > len(voters) - majority(voters)


def reached_by_majority(voters: Collection[ReplicaKey], reached: Mapping[ReplicaKey, int]) -> int:
    """Return the greatest index that a majority of `voters` has reached; a voter missing from `reached` counts as 0."""
    ranked = sorted((reached.get(voter, 0) for voter in voters), reverse=True)
    return ranked[majority(voters) - 1]

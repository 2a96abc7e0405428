"""Assigns partitions to the members of a share group, by the rules of Kafka's `simple` assignor.

The members of a share group may share a partition.  If every member subscribes to the same topics, all partitions are
balanced together; otherwise each topic is balanced by itself among its subscribers, and the results are combined.
With more members than partitions, each partition is shared by ⌈members / partitions⌉ members, so that no member is
idle.  Balance comes first; within balance, members keep the partitions that they have.

The result depends only on the arguments: members count in the order of their ids and partitions in order of topic id
and number, so two coordinators compute the same assignment.  (Kafka's order is that of its hash tables.)
"""

from collections.abc import Iterable, Mapping
from typing import Final

from tidemill.model.topic import TopicId

ASSIGNOR_NAME: Final = "simple"

Assignment = Mapping[TopicId, tuple[int, ...]]
"""The partitions of one member, by topic and in ascending order; a topic without partitions is left out."""

_Partition = tuple[TopicId, int]


def assign(
    subscriptions: Mapping[str, frozenset[TopicId]],
    partition_counts: Mapping[TopicId, int],
    current: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """Return the new assignment of every member in `subscriptions`.

    `subscriptions` holds the existing topics of each member, `partition_counts` the partition count of each topic, and
    `current` the assignments of the members that have one.
    """
    members = sorted(subscriptions)
    topics = sorted(frozenset().union(*subscriptions.values()))
    assigned: dict[str, list[_Partition]] = {member: [] for member in members}
    if len(set(subscriptions.values())) <= 1:
        balanced = [(members, topics)]
    else:
        balanced = [([m for m in members if topic in subscriptions[m]], [topic]) for topic in topics]
    for subscribers, its_topics in balanced:
        partitions = [(topic, number) for topic in its_topics for number in range(partition_counts[topic])]
        for member, given in _balance(subscribers, partitions, current).items():
            assigned[member] += given
    return {member: _by_topic(given) for member, given in assigned.items()}


def _balance(
    members: list[str], partitions: list[_Partition], current: Mapping[str, Assignment]
) -> dict[str, list[_Partition]]:
    """Balance `partitions` among `members`, all of which subscribe to all of them."""
    if not members or not partitions:
        return {}
    sharers_wanted = -(-len(members) // len(partitions))  # members per partition, rounded up
    total = sharers_wanted * len(partitions)
    sharers = dict.fromkeys(partitions, 0)
    unfilled: dict[str, int] = {}  # member → number of partitions that it has yet to get
    kept: dict[str, dict[_Partition, None]] = {}
    for index, member in enumerate(members):
        quota = -(-total * (index + 1) // len(members)) + (-total * index // len(members))
        kept[member] = {}
        for partition in _partitions_of(current.get(member, {})):
            # A member loses a partition that no longer exists, exceeds its quota, or is kept by enough other members.
            if sharers.get(partition, sharers_wanted) < sharers_wanted and len(kept[member]) < quota:
                kept[member][partition] = None
                sharers[partition] += 1
        if len(kept[member]) < quota:
            unfilled[member] = quota - len(kept[member])
    for partition in partitions:
        while sharers[partition] < sharers_wanted:
            taker = next((member for member in unfilled if partition not in kept[member]), None)
            if taker is None:
                break  # Each unfilled member already has this partition, and no other; its quota is 2.
            kept[taker][partition] = None
            sharers[partition] += 1
            left = unfilled.pop(taker) - 1
            if left:
                unfilled[taker] = left  # inserted at the end, so that the members take turns
    return {member: list(given) for member, given in kept.items()}


def _partitions_of(assignment: Assignment) -> Iterable[_Partition]:
    return ((topic, number) for topic, numbers in assignment.items() for number in numbers)


def _by_topic(partitions: Iterable[_Partition]) -> Assignment:
    numbers: dict[TopicId, list[int]] = {}
    for topic, number in sorted(partitions):
        numbers.setdefault(topic, []).append(number)
    return {topic: tuple(found) for topic, found in numbers.items()}

"""The simple assignor: balance before stickiness, and no idle member."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.coordinator.share_group.simple_assignor import assign
from tidemill.model.topic import TopicId

A, B, C = (TopicId(bytes([number]) * 16) for number in (1, 2, 3))


def sizes(assignment):
    return [sum(map(len, topics.values())) for _, topics in sorted(assignment.items())]


def sharers(assignment, topic, count):
    return [sum(number in given.get(topic, ()) for given in assignment.values()) for number in range(count)]


def alike(count, *topics):
    return {f"m{number:03}": frozenset(topics) for number in range(count)}


def moved(before, after):
    """Return the number of partitions that members have gained."""
    pairs = [(member, topic, n) for member, given in after.items() for topic, numbers in given.items() for n in numbers]
    return sum(number not in before.get(member, {}).get(topic, ()) for member, topic, number in pairs)


@pytest.mark.parametrize(
    ("members", "partitions", "expected_sizes", "expected_sharers"),
    [
        (1, 3, [3], 1),
        (2, 3, [2, 1], 1),
        (3, 3, [1, 1, 1], 1),
        (4, 3, [2, 1, 2, 1], 2),  # two members share each partition: six assignments, 1.5 a member
        (6, 3, [1] * 6, 2),
        (7, 2, [2, 1, 1, 1, 1, 1, 1], 4),
        (4, 1, [1] * 4, 4),
    ],
)
def test_partitions_are_shared_when_members_outnumber_them(members, partitions, expected_sizes, expected_sharers):
    """
    ⌈members / partitions⌉ members share a partition, and member i gets ⌈p(i + 1)⌉ − ⌈p·i⌉ of them.  In a consumer
    group, the members beyond the partition count would be idle.
    """
    assignment = assign(alike(members, A), {A: partitions}, {})

    assert expected_sizes == sizes(assignment)
    assert [expected_sharers] * partitions == sharers(assignment, A, partitions)


def test_topics_are_balanced_together_if_all_subscribe_to_them():
    """Two topics of one partition each give two members one each, not both to the first."""
    assignment = assign(alike(2, A, B), {A: 1, B: 1}, {})

    assert {"m000": {A: (0,)}, "m001": {B: (0,)}} == assignment


def test_each_topic_is_balanced_by_itself_if_subscriptions_differ():
    """KIP-932: a member with two topics gets its part of each."""
    subscriptions = {"m0": frozenset({A}), "m1": frozenset({B}), "m2": frozenset({A, B})}

    assignment = assign(subscriptions, {A: 4, B: 2}, {})

    assert {"m0": {A: (0, 2)}, "m1": {B: (0,)}, "m2": {A: (1, 3), B: (1,)}} == assignment


def test_a_joining_member_takes_only_what_balance_requires():
    """Members keep what they have: a moved partition interrupts its reader."""
    before = assign(alike(2, A), {A: 6}, {})

    after = assign(alike(3, A), {A: 6}, before)

    assert [2, 2, 2] == sizes(after)
    assert 2 == moved(before, after)


def test_a_leaving_members_partitions_go_to_the_others():
    """No partition of those who stay moves."""
    before = assign(alike(3, A), {A: 6}, {})
    stayed = {member: topics for member, topics in before.items() if member != "m001"}

    after = assign({member: frozenset({A}) for member in stayed}, {A: 6}, stayed)

    assert [3, 3] == sizes(after)
    assert 2 == moved(stayed, after)


def test_shared_partitions_are_given_up_when_members_leave():
    """Once one member a partition suffices, a partition that is shared more is revoked from the others."""
    before = assign(alike(4, A), {A: 2}, {})
    stayed = {member: before[member] for member in ("m000", "m001")}

    after = assign(alike(2, A), {A: 2}, stayed)

    assert [1, 1] == sizes(after)
    assert [1, 1] == sharers(after, A, 2)


def test_what_is_not_subscribed_or_does_not_exist_is_revoked():
    """A member never keeps a partition of a topic that it left, nor a partition that is gone."""
    current = {"m000": {A: (0, 1), B: (0,)}}

    assignment = assign(alike(1, A), {A: 1}, current)

    assert {"m000": {A: (0,)}} == assignment


@pytest.mark.parametrize("subscriptions", [{}, alike(2)], ids=["no members", "no topics"])
def test_there_may_be_nothing_to_assign(subscriptions):
    """Every member has an assignment, even an empty one."""
    assert {member: {} for member in subscriptions} == assign(subscriptions, {}, {})


def test_a_topic_without_partitions_is_left_out():
    """No member waits for a topic that has no partitions yet."""
    assert {"m000": {A: (0,)}} == assign(alike(1, A, B), {A: 1, B: 0}, {})


@st.composite
def groups(draw):
    """Return subscriptions, partition counts, and a current assignment that may be left from another time."""
    counts = {topic: draw(st.integers(0, 6)) for topic in (A, B, C)}
    members = [f"m{number}" for number in range(draw(st.integers(1, 17)))]
    if draw(st.booleans()):
        topics = draw(st.frozensets(st.sampled_from((A, B, C))))
        subscriptions = dict.fromkeys(members, topics)
    else:
        subscriptions = {member: draw(st.frozensets(st.sampled_from((A, B, C)))) for member in members}
    held = st.dictionaries(st.sampled_from((A, B, C)), st.sets(st.integers(0, 7)).map(lambda it: tuple(sorted(it))))
    current = draw(st.dictionaries(st.sampled_from([*members, "gone"]), held))
    return subscriptions, counts, current


@given(groups())
def test_every_partition_is_read_and_no_member_is_idle(group):
    """
    For any subscriptions and any earlier assignment: members get only what they subscribe to; each partition has at
    least one member and at most ⌈members / partitions⌉; a member with a subscription that has partitions gets one.
    """
    subscriptions, counts, current = group

    assignment = assign(subscriptions, counts, current)

    assert subscriptions.keys() == assignment.keys()
    together = len(set(subscriptions.values())) <= 1
    for topic, count in counts.items():
        subscribers = [member for member in subscriptions if topic in subscriptions[member]]
        partitions = sum(counts[it] for it in subscriptions[subscribers[0]]) if together and subscribers else count
        found = sharers(assignment, topic, count)
        if subscribers and count:
            assert all(1 <= it <= -(-len(subscribers) // partitions) for it in found)
        else:
            assert not any(found)
    for member, given_topics in assignment.items():
        assert given_topics.keys() <= subscriptions[member]
        assert all(numbers and numbers[-1] < counts[topic] for topic, numbers in given_topics.items())
        assert bool(given_topics) == any(counts[topic] for topic in subscriptions[member])


@given(groups())
def test_the_assignment_is_balanced(group):
    """
    Balance comes before stickiness: members with the same subscription have the same number of partitions, or one more,
    whatever they had before.
    """
    subscriptions, counts, current = group
    subscriptions = dict.fromkeys(subscriptions, frozenset({A, B}))

    assignment = assign(subscriptions, counts, current)

    assert max(sizes(assignment)) - min(sizes(assignment)) <= 1


@given(groups())
def test_an_assignment_is_stable(group):
    """
    Assigning again changes nothing: a group epoch without another cause moves no partition.
    """
    subscriptions, counts, current = group
    once = assign(subscriptions, counts, current)

    twice = assign(subscriptions, counts, once)

    assert once == twice

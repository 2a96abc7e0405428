"""The simple assignor: partitions are balanced, no member is idle, and members keep their partitions where possible."""

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
    """Return the number of partitions that members have in `after` but not in `before`."""
    pairs = [(member, topic, n) for member, given in after.items() for topic, numbers in given.items() for n in numbers]
    return sum(number not in before.get(member, {}).get(topic, ()) for member, topic, number in pairs)


@pytest.mark.parametrize(
    ("members", "partitions", "expected_sizes", "expected_sharers"),
    [
        (1, 3, [3], 1),
        (2, 3, [2, 1], 1),
        (3, 3, [1, 1, 1], 1),
        (4, 3, [2, 1, 2, 1], 2),  # two members share each partition: six assignments, 1.5 per member
        (6, 3, [1] * 6, 2),
        (7, 2, [2, 1, 1, 1, 1, 1, 1], 4),
        (4, 1, [1] * 4, 4),
    ],
)
def test_partitions_are_shared_when_members_outnumber_them(members, partitions, expected_sizes, expected_sharers):
    """
    If there are more members than partitions, ⌈members / partitions⌉ members share each partition, so that no member is
    idle, as it would be in a consumer group.  Member i gets ⌈p(i + 1)⌉ − ⌈p·i⌉ partitions, where p is the mean number
    of partitions per member.
    """
    assignment = assign(alike(members, A), {A: partitions}, {})

    assert expected_sizes == sizes(assignment)
    assert [expected_sharers] * partitions == sharers(assignment, A, partitions)


def test_topics_are_balanced_together_if_all_subscribe_to_them():
    """
    If all members subscribe to the same topics, the topics are balanced together: of two topics with one partition
    each, two members get one each.
    """
    assignment = assign(alike(2, A, B), {A: 1, B: 1}, {})

    assert {"m000": {A: (0,)}, "m001": {B: (0,)}} == assignment


def test_each_topic_is_balanced_by_itself_if_subscriptions_differ():
    """
    If subscriptions differ, each topic is balanced by itself among its subscribers, so a member with two topics gets a
    part of each (KIP-932).
    """
    subscriptions = {"m0": frozenset({A}), "m1": frozenset({B}), "m2": frozenset({A, B})}

    assignment = assign(subscriptions, {A: 4, B: 2}, {})

    assert {"m0": {A: (0, 2)}, "m1": {B: (0,)}, "m2": {A: (1, 3), B: (1,)}} == assignment


def test_a_joining_member_takes_only_what_balance_requires():
    """
    A joining member takes only as many partitions as balance requires, because a partition that moves interrupts its
    reader.
    """
    before = assign(alike(2, A), {A: 6}, {})

    after = assign(alike(3, A), {A: 6}, before)

    assert [2, 2, 2] == sizes(after)
    assert 2 == moved(before, after)


def test_a_leaving_members_partitions_go_to_the_others():
    """The partitions of a member that leaves go to the remaining members, which keep all of their own."""
    before = assign(alike(3, A), {A: 6}, {})
    stayed = {member: topics for member, topics in before.items() if member != "m001"}

    after = assign({member: frozenset({A}) for member in stayed}, {A: 6}, stayed)

    assert [3, 3] == sizes(after)
    assert 2 == moved(stayed, after)


def test_shared_partitions_are_given_up_when_members_leave():
    """
    When so many members have left that one member per partition suffices, a shared partition is revoked from all
    members but one.
    """
    before = assign(alike(4, A), {A: 2}, {})
    stayed = {member: before[member] for member in ("m000", "m001")}

    after = assign(alike(2, A), {A: 2}, stayed)

    assert [1, 1] == sizes(after)
    assert [1, 1] == sharers(after, A, 2)


def test_what_is_not_subscribed_or_does_not_exist_is_revoked():
    """A member loses a partition if it no longer subscribes to the topic or if the partition no longer exists."""
    current = {"m000": {A: (0, 1), B: (0,)}}

    assignment = assign(alike(1, A), {A: 1}, current)

    assert {"m000": {A: (0,)}} == assignment


@pytest.mark.parametrize("subscriptions", [{}, alike(2)], ids=["no members", "no topics"])
def test_there_may_be_nothing_to_assign(subscriptions):
    """If there are no topics, every member has an empty assignment; if there are no members, nothing is assigned."""
    assert {member: {} for member in subscriptions} == assign(subscriptions, {}, {})


def test_a_topic_without_partitions_is_left_out():
    """A subscribed topic that has no partitions is not in any assignment."""
    assert {"m000": {A: (0,)}} == assign(alike(1, A, B), {A: 1, B: 0}, {})


@st.composite
def groups(draw):
    """Return random subscriptions and partition counts, and an earlier assignment that need not fit them."""
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
    For any subscriptions and any earlier assignment, members get only topics to which they subscribe, each partition
    with subscribers has from 1 to ⌈members / partitions⌉ members, and each member gets a partition if one of its topics
    has any.
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
    Balance is more important than keeping partitions: if all members have the same subscription, their numbers of
    partitions differ by at most one, whatever they had before.
    """
    subscriptions, counts, current = group
    subscriptions = dict.fromkeys(subscriptions, frozenset({A, B}))

    assignment = assign(subscriptions, counts, current)

    assert max(sizes(assignment)) - min(sizes(assignment)) <= 1


@given(groups())
def test_an_assignment_is_stable(group):
    """
    Computing an assignment again from its own result changes nothing, so a new group epoch without another change moves
    no partition.
    """
    subscriptions, counts, current = group
    once = assign(subscriptions, counts, current)

    twice = assign(subscriptions, counts, once)

    assert once == twice

"""The checker finds every kind of violation, and none in a correct history."""

from dataclasses import replace

from tests.fault.history import History, Law, Read, Send, distinct_laws, parse_value, value_of, violations


def sound() -> History:
    """Return a correct history of two producers and two partitions.  One of the stored sends has no acknowledgement."""
    sends = [Send(1, 0, 0, 0), Send(1, 1, 0, 1), Send(2, 0, 0, 2), Send(2, 1, 1, 0), Send(2, 2, 1, None)]
    reads = [Read(0, offset, value_of(*name)) for offset, name in enumerate([(1, 0), (1, 1), (2, 0)])]
    reads += [Read(1, offset, value_of(*name)) for offset, name in enumerate([(2, 1), (2, 2)])]
    return History(sends=sends, reads=reads[:2], final=reads)


def test_a_value_names_itself() -> None:
    """A value contains its producer and its sequence number, and its CRC reveals any damage."""
    value = value_of(3, 14)

    damaged = value.replace(b"3-14", b"3-15")

    assert parse_value(value) == (3, 14)
    assert parse_value(damaged) is None


def test_a_correct_history_breaks_no_law() -> None:
    """A correct history violates no invariant, even if a send that was not acknowledged is stored."""
    assert violations(sound()) == []


def test_an_unacknowledged_send_may_be_missing() -> None:
    """An unacknowledged send may be missing, because its outcome is unknown."""
    history = sound()
    history.final.pop()

    assert violations(history) == []


def test_an_acknowledged_value_that_is_gone_is_lost() -> None:
    """A missing value that was acknowledged is reported as lost."""
    history = sound()
    history.final.remove(Read(1, 0, value_of(2, 1)))
    history.final.remove(Read(1, 1, value_of(2, 2)))

    assert {Law.NOTHING_LOST} == distinct_laws(violations(history))


def test_a_value_that_was_read_must_stay() -> None:
    """A value that a consumer has read was committed, so it must not disappear."""
    history = sound()
    history.reads.append(Read(1, 2, value_of(2, 2)))

    assert Law.NOTHING_LOST in distinct_laws(violations(history))


def test_a_value_at_two_offsets_is_a_duplicate() -> None:
    """A value at two offsets is reported as a duplicate, because a retried send must be stored only once."""
    history = sound()
    history.final.append(Read(1, 2, value_of(2, 2)))

    assert Law.ONE_OFFSET_PER_VALUE in distinct_laws(violations(history))


def test_an_offset_with_two_values_is_rewritten_history() -> None:
    """An offset with two values is reported, because an offset is assigned only once."""
    history = sound()
    history.reads.append(Read(0, 2, value_of(1, 0)))

    assert Law.ONE_VALUE_PER_OFFSET in distinct_laws(violations(history))


def test_values_in_another_order_than_sent_are_reordered() -> None:
    """A producer's values are reported if their order differs from that in which they were sent.  For sends without an
    acknowledgement, the order in the log is checked.
    """
    history = sound()
    history.final[3:] = [Read(1, 0, value_of(2, 2)), Read(1, 1, value_of(2, 1))]
    history.sends[3] = replace(history.sends[3], offset=None)

    assert {Law.SEND_ORDER} == distinct_laws(violations(history))


def test_a_value_that_was_not_sent_is_invented() -> None:
    """A value that was never sent, that was sent to another partition, or that is damaged is reported as invented."""
    for value in (value_of(9, 9), value_of(1, 0)[:-1] + b"!"):
        history = sound()
        history.final.append(Read(1, 2, value))

        assert Law.NOTHING_INVENTED in distinct_laws(violations(history))


def test_a_gap_in_the_offsets_is_found() -> None:
    """A gap in the offsets is reported: without deletion or compaction, there must be none."""
    history = sound()
    history.final[-1] = replace(history.final[-1], offset=2)

    assert {Law.DENSE} == distinct_laws(violations(history))

"""The division of an offset range into steps."""

from tidemill.spark.pipelines.stats.topic_range import TopicRange


def test_the_steps_cover_the_range_once() -> None:
    """
    In every partition, the steps are consecutive, and together they cover the range.
    """
    whole = TopicRange({0: 5, 1: 0, 2: 7}, {0: 105, 1: 31, 2: 7})

    steps = whole.steps(20)

    assert 7 == len(steps)
    assert max(step.offset_count for step in steps) <= 20
    assert (whole.starts, whole.ends) == (steps[0].starts, steps[-1].ends)
    assert [step.ends for step in steps[:-1]] == [step.starts for step in steps[1:]]


def test_an_empty_range_has_no_steps() -> None:
    """
    Reading a topic without records takes no steps.
    """
    assert [] == TopicRange({0: 4}, {0: 4}).steps(10)


def test_a_range_is_kept_as_json() -> None:
    """
    A later run reads the same range from the state that an earlier run has written.
    """
    whole = TopicRange({0: 5, 11: 0}, {0: 9, 11: 3})

    assert whole == TopicRange.from_json(whole.to_json())

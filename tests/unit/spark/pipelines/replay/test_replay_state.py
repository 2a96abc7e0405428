"""The state that a replay stores between runs."""

import json

import pytest

from tidemill.model.partition import TopicPartition
from tidemill.spark.pipelines.replay.replay_state import Counts, ReplayState, Step
from tidemill.spark.pipelines.replay.schedule import DueTimes

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))
FIRST = ReplayState(topic_id="id", start={P0: 5, P1: 0}, end={P0: 90, P1: 80}, done={P0: 5, P1: 0})
DUE = DueTimes(first_timestamp_ms=1_000, first_due_ms=2_000, speed=0.5)
STEP = Step(end={P0: 50}, target={TopicPartition("to", 0): 7})


@pytest.mark.parametrize(
    "state",
    [
        FIRST,
        FIRST.step_begun(STEP),
        FIRST.step_begun(STEP).step_done(read=45, written=40).repeated(3),
        ReplayState(topic_id=None, start={P0: 5}, end=None, done={P0: 5}),
        FIRST.with_due(DUE).step_begun(STEP).step_done(read=45, written=40),
    ],
)
def test_a_state_survives_json(state):
    assert state == ReplayState.from_json(json.loads(json.dumps(state.to_json())))


def test_the_json_is_that_of_the_documentation():
    """The JSON has the format that docs/formats/pipelines.md describes, so that later versions can read it."""
    state = FIRST.step_begun(STEP).step_done(read=45, written=40).step_begun(STEP)

    assert {
        "topic_id": "id",
        "start": {"t": {"0": 5, "1": 0}},
        "end": {"t": {"0": 90, "1": 80}},
        "done": {"t": {"0": 50, "1": 0}},
        "step": {"end": {"t": {"0": 50}}, "target": {"to": {"0": 7}}},
        "counts": {"read": 45, "written": 40, "repeated_max": 0, "steps": 1},
        "due": None,
    } == state.to_json()
    assert {"first_timestamp_ms": 1_000, "first_due_ms": 2_000, "speed": 0.5} == state.with_due(DUE).to_json()["due"]


def test_a_state_of_an_older_version_has_no_due_times():
    older = FIRST.to_json()
    del older["due"]

    assert FIRST == ReplayState.from_json(older)


def test_a_step_moves_only_its_partitions():
    state = FIRST.step_begun(STEP).step_done(read=45, written=40)

    assert {P0: 50, P1: 0} == state.done
    assert state.step is None
    assert Counts(read=45, written=40, steps=1) == state.counts


def test_an_open_range_takes_new_partitions():
    state = ReplayState(topic_id=None, start={P0: 5}, end=None, done={P0: 9}).with_partitions({P2: 1})

    assert ({P0: 5, P2: 1}, {P0: 9, P2: 1}) == (state.start, state.done)

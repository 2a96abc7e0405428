"""Runs of a toy pipeline, by the framework and as a Python function."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.toy.counting_pipeline import PIPELINE
from tidemill.spark.pipelines import function
from tidemill.spark.pipelines.frame.run import make_job, run
from tidemill.spark.pipelines.frame.state_directory import StateDirectory, StateRefused
from tidemill.spark.pipelines.function import PipelineFunction

SPARK = cast(Any, object())  # the toy pipeline does not use it
BROKER = "127.0.0.1:9"


class Recorded:
    """A progress display that records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def begin(self, what: str, total_records: int | None) -> None:
        self.calls.append(("begin", what, total_records))

    def advance(self, records: int, bytes: int = 0, lag: int | None = None) -> None:
        self.calls.append(("advance", records, bytes, lag))

    def note(self, text: str) -> None:
        self.calls.append(("note", text))


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> PipelineFunction:
    monkeypatch.setattr(function, "load", {"counting": PIPELINE}.__getitem__)
    return PipelineFunction("counting")


def test_a_function_runs_a_pipeline(counting: PipelineFunction, tmp_path: Path) -> None:
    """
    A pipeline's function takes the command's options as keyword arguments and returns the report.
    """
    report = counting(SPARK, topic="t", until="3", state=tmp_path, bootstrap_servers=BROKER)

    assert {"topic": "t", "records": 3} == report.rows
    assert {
        "topic": "t",
        "records": 3,
        "tables": [{"title": "Numbers", "rows": [{"number": 3, "label": None}]}],
        "is_success": True,
        "failure": None,
    } == json.loads(json.dumps(report.to_json()))


def test_a_run_resumes_from_its_state(counting: PipelineFunction, tmp_path: Path) -> None:
    """
    A second run continues where the first one stopped, and reports its own progress.
    """
    counting(SPARK, topic="t", until=3, state=tmp_path, bootstrap_servers=BROKER)
    progress = Recorded()

    counting(SPARK, topic="t", until=4, step_bytes="7", state=tmp_path, bootstrap_servers=BROKER, progress=progress)

    assert [("note", "resumes at 3"), ("begin", "counting", 1), ("advance", 1, 7, 0)] == progress.calls


def test_a_plan_writes_nothing(counting: PipelineFunction, tmp_path: Path) -> None:
    """
    A plan describes what a run would do, and creates no state directory.
    """
    plan = counting.plan(SPARK, topic="t", until=3, state=tmp_path / "state", bootstrap_servers=BROKER)

    assert [] == [*tmp_path.iterdir()]
    assert {
        "plan": "Count numbers",
        "topic": "t",
        "from": "0",
        "to": "3",
        "tables": [{"title": "Steps", "rows": [{"step": 1, "number": 0}]}],
    } == json.loads(json.dumps(plan.to_json()))


def test_a_run_ends_after_the_step_at_hand(tmp_path: Path) -> None:
    """
    A run that is asked to stop ends after the current step, and its state contains what has been done.
    """
    requests = iter([False, False, True])
    job = make_job(
        SPARK,
        PIPELINE,
        {"topic": "t"},
        state=tmp_path,
        bootstrap_servers=BROKER,
        stop_requested=lambda: next(requests),
    )

    assert (2, {"number": 2}) == (run(PIPELINE, job).rows["records"], job.state.read("reached"))


def test_settings_of_the_clients_are_options_of_the_format() -> None:
    """
    Client settings get the prefix `kafka.`, which `format("tidemill")` expects.
    """
    kafka = {"sasl.username": "me", "kafka.sasl.mechanism": "PLAIN"}
    job = make_job(SPARK, PIPELINE, {"topic": "t"}, state="s", bootstrap_servers=BROKER, kafka=kafka)

    expected = {"kafka.bootstrap.servers": BROKER, "kafka.sasl.username": "me", "kafka.sasl.mechanism": "PLAIN"}
    assert expected == job.kafka
    with pytest.raises(ValueError, match="bootstrap_servers"):
        make_job(
            SPARK,
            PIPELINE,
            {"topic": "t"},
            state="s",
            bootstrap_servers=BROKER,
            kafka={"bootstrap.servers": BROKER},
        )


def test_a_wrong_option_is_refused_before_the_run(counting: PipelineFunction, tmp_path: Path) -> None:
    """
    A wrong option is refused before the state directory is created.
    """
    with pytest.raises(ValueError, match="did you mean until"):
        counting(SPARK, topic="t", untill=3, state=tmp_path / "state", bootstrap_servers=BROKER)

    assert [] == [*tmp_path.iterdir()]


def test_a_run_holds_its_state_directory(counting: PipelineFunction, tmp_path: Path) -> None:
    """
    A run is refused while another run is using the state directory.
    """
    with StateDirectory(tmp_path).locked(), pytest.raises(StateRefused, match="in use by another run"):
        counting(SPARK, topic="t", state=tmp_path, bootstrap_servers=BROKER)


def test_a_function_reads_what_its_pipeline_has_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """
    A pipeline that writes to a directory has a function `read` for that directory; for other pipelines, the function
    raises an error.
    """
    reading = replace(PIPELINE, read=lambda spark, path: cast(Any, (spark, path)))
    monkeypatch.setattr(function, "load", {"counting": PIPELINE, "reading": reading}.__getitem__)

    assert (SPARK, tmp_path) == cast(Any, PipelineFunction("reading").read(SPARK, tmp_path))
    with pytest.raises(TypeError, match="pipeline counting writes to no directory that could be read"):
        PipelineFunction("counting").read(SPARK, tmp_path)

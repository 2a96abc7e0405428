"""`tidemill pipeline`, with a toy pipeline and without Spark."""

import io
import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.toy.counting_pipeline import PIPELINE, CountingOptions, Order
from tidemill.cli import bootstrap, main, pipeline_run
from tidemill.cli.failure import ExitCode
from tidemill.spark.pipelines import registry
from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.pipeline import Pipeline
from tidemill.spark.pipelines.frame.report import Report

Jobs = list[Job[Any]]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def pipelines(monkeypatch: pytest.MonkeyPatch) -> dict[str, Pipeline[Any]]:
    """Return the pipelines that the commands find; a test may replace them."""
    found = {"counting": PIPELINE}
    monkeypatch.setattr(registry, "names", lambda: sorted(found))
    load = registry.load
    monkeypatch.setattr(registry, "load", lambda name: found[name] if name in found else load(name))
    return found


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, dict[str, str]]]:
    """Replace Spark, and return the name, master and settings of each session that a command starts."""
    started: list[tuple[str, str, dict[str, str]]] = []

    @contextmanager
    def session(name: str, master: str, conf: dict[str, str]) -> Iterator[None]:
        started.append((name, master, conf))
        yield None

    monkeypatch.setattr(pipeline_run, "spark_session", session)
    monkeypatch.setattr(bootstrap, "check_reachable", lambda servers: None)
    return started


@pytest.fixture
def command(pipelines: dict[str, Pipeline[Any]], sessions: object, capsys: pytest.CaptureFixture[str]) -> Run:
    """`command("list")` runs `tidemill pipeline list`, and returns the exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main.main(["pipeline", *arguments])
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return run


def counting(command: Run, state: Path, *more: str) -> tuple[int, str, str]:
    return command("run", "counting", "--topic", "numbers", "--until", "3", "--state", str(state), *more)


def test_the_list_has_a_line_for_each_pipeline(command: Run) -> None:
    """
    The list shows what each pipeline does.
    """
    assert (0, "pipeline\twhat it does\ncounting\tcount numbers\n", "") == command("list")
    row = {"pipeline": "counting", "summary": "count numbers", "checks": PIPELINE.checks}
    assert row == json.loads(command("list", "--json")[1])


def test_a_description_has_options_defaults_checks_and_an_example(command: Run) -> None:
    """
    A description contains everything that a user needs in order to run the pipeline.
    """
    code, out, _ = command("describe", "counting")
    described = json.loads(command("describe", "counting", "--json")[1])

    assert 0 == code
    lines = out.splitlines()
    assert "counting: count numbers" == lines[0]
    assert f"Checked: {PIPELINE.checks}" in lines
    assert "Example: tidemill pipeline run counting --topic numbers --until 20 --state counting-state" in lines
    assert {"--topic\trequired\tThe topic that the numbers are called after.", "--pause\t10m\tHow long to wait."} <= {
        *lines
    }
    assert "--order\tup\tUp or down.  One of up, down." in lines
    assert {
        "option": "--step-bytes",
        "required": False,
        "default": "1MiB",
        "choices": [],
        "repeatable": False,
        "help": "Bytes of one step.",
    } == described["options"][2]


def test_the_options_of_a_command_are_those_of_the_pipeline(
    command: Run, pipelines: dict[str, Pipeline[Any]], tmp_path: Path
) -> None:
    """
    Texts, numbers, sizes, durations, choices, flags and repeated options reach the pipeline with the types of its
    dataclass.
    """
    jobs: Jobs = []
    pipelines["counting"] = replace(PIPELINE, run=lambda job: (jobs.append(job), Report({}))[1])
    given = (
        "--step-bytes 128MiB --pause 90s --order down --mode slow --is-loud --label a --label b --limit 0.5 "
        "--bootstrap 127.0.0.1:9 -X sasl.username=me -X kafka.client.id=c --continuous"
    )

    code, _, err = counting(command, tmp_path, *given.split())
    default_code, _, _ = counting(command, tmp_path)

    assert ((0, ""), 0) == ((code, err), default_code)
    expected = CountingOptions(
        topic="numbers",
        until=3,
        step_bytes=128 << 20,
        pause=timedelta(seconds=90),
        order=Order.DOWN,
        mode="slow",
        is_loud=True,
        label=("a", "b"),
        limit=0.5,
    )
    assert [expected, CountingOptions(topic="numbers", until=3)] == [job.options for job in jobs]
    assert [True, False] == [job.is_continuous for job in jobs]
    kafka = {"kafka.bootstrap.servers": "127.0.0.1:9", "kafka.sasl.username": "me", "kafka.client.id": "c"}
    assert kafka == jobs[0].kafka


def test_help_shows_the_options_of_the_pipeline_and_of_every_run(command: Run) -> None:
    """
    The help of `run` lists the pipeline's own options with their defaults, and the options that all runs have in
    common.
    """
    code, out, _ = command("run", "counting", "--help")

    assert 0 == code
    for text in ("--step-bytes SIZE", "1MiB", "--order up|down", "--is-loud / --no-is-loud", "--dry-run", "--master"):
        assert text in out
    assert "count numbers" in command("run", "--help")[1].lower()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("run", "countin"), "pipeline countin is unknown: did you mean counting?"),
        (("describe", "countin"), "pipeline countin is unknown: did you mean counting?"),
        (("run", "counting", "--state", "s"), "Missing option '--topic'"),
        (("run", "counting", "--topic", "t"), "Missing option '--state'"),
        (("run", "counting", "--topic", "t", "--state", "s", "--untill", "3"), "--until"),
        (("run", "counting", "--topic", "t", "--state", "s", "--until", "x"), "until=x: not a whole number"),
        (("run", "counting", "--topic", "t", "--state", "s", "--step-bytes", "x"), "step_bytes=x: not a size"),
        (("run", "counting", "--topic", "t", "--state", "s", "--until", "0"), "until=0 is below 1"),
        (
            ("run", "counting", "--topic", "t", "--state", "s", "-X", "sasl.password"),
            "'sasl.password' has no value",
        ),
        (("run", "counting", "--topic", "t", "--state", "s", "-X", "a=1", "-X", "a=2"), "-X a is given twice"),
    ],
)
def test_wrong_use_is_refused_before_spark_starts(
    arguments: tuple[str, ...], error: str, command: Run, sessions: list[object]
) -> None:
    """
    A wrong name, option or value is refused immediately, with the nearest valid one or an example.
    """
    code, out, err = command(*arguments)

    assert (2, "", []) == (code, out, sessions)
    assert error in err


def test_a_dry_run_prints_the_plan_and_writes_nothing(command: Run, tmp_path: Path) -> None:
    """
    A dry run prints what a run would do, and does not even create the state directory.
    """
    code, out, _ = counting(command, tmp_path / "state", "--dry-run")
    plan = json.loads(counting(command, tmp_path / "state", "--dry-run", "--json")[1])

    assert (0, []) == (code, [*tmp_path.iterdir()])
    assert ["Count numbers", "Nothing was written."] == [out.splitlines()[0], out.splitlines()[-1]]
    assert "to     3" in out.splitlines()
    assert ("Count numbers", "3") == (plan["plan"], plan["to"])


def test_a_run_ends_with_a_table(command: Run, sessions: list[Any], tmp_path: Path) -> None:
    """
    A run prints its progress on stderr and its tables on stdout.
    """
    code, out, err = counting(command, tmp_path, "--master", "local[1]", "--conf", "spark.a=b")

    assert (0, ("tidemill pipeline counting", "local[1]", {"spark.a": "b"})) == (code, sessions[0])
    assert ["", "Numbers", "number\tlabel", "3\t-", "counting\tvalue", "topic\tnumbers", "records\t3"] == (
        out.splitlines()[:-1]
    )
    first, last = err.splitlines()
    assert "counting: 3 records" == first
    assert last.startswith("counting: 3 of 3 records, ") and "lag 0" in last


def test_a_report_is_one_line_of_json(command: Run, tmp_path: Path) -> None:
    """
    With --json, stdout contains the report and nothing else, and stderr contains one object for each event.
    """
    counting(command, tmp_path)
    code, out, err = command(
        "run", "counting", "--topic", "numbers", "--until", "4", "--state", str(tmp_path), "--json"
    )
    report = json.loads(out)
    events = [json.loads(line) for line in err.splitlines()]

    assert 0 == code
    expected = {"event": "report", "pipeline": "counting", "topic": "numbers", "records": 4, "is_success": True}
    assert expected == {name: report[name] for name in expected}
    assert {"event": "note", "message": "resumes at 3"} == events[0]
    names = ("event", "phase", "records", "total_records", "lag")
    assert [("progress", "counting", 0, 1, 1), ("progress", "counting", 1, 1, 0)] == [
        tuple(event[name] for name in names) for event in events[1:]
    ]


def test_a_failed_check_exits_with_1(command: Run, tmp_path: Path) -> None:
    """
    If a check fails, the report is printed, a sentence about the differences goes to stderr, and the exit code is 1.
    """
    code, out, err = counting(command, tmp_path, "--mode", "slow")

    assert (1, "tidemill: 2 numbers differ") == (code, err.splitlines()[-1])
    assert "records\t3" in out


@pytest.mark.parametrize(
    ("error", "last"),
    [
        (ValueError("topic=x: no such topic; create it"), "tidemill: topic=x: no such topic; create it"),
        (PermissionError(13, "Permission denied", "/state"), "tidemill: [Errno 13] Permission denied: '/state'"),
        (KeyError("a bug"), "tidemill: KeyError: 'a bug'"),
    ],
)
def test_a_run_that_fails_exits_with_2(
    error: Exception, last: str, command: Run, pipelines: dict[str, Pipeline[Any]], tmp_path: Path
) -> None:
    """
    A run that fails prints one sentence and exits with 2, because 1 means that differences were found.  A bug shows its
    traceback.
    """

    def fail(job: Job[Any]) -> Report:
        raise error

    pipelines["counting"] = replace(PIPELINE, run=fail)

    code, out, err = counting(command, tmp_path)

    assert (2, "", last) == (code, out, err.splitlines()[-1])
    assert isinstance(error, KeyError) == ("Traceback" in err)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_after_the_step_at_hand(
    number: signal.Signals, command: Run, pipelines: dict[str, Pipeline[Any]], tmp_path: Path
) -> None:
    """
    After the first Ctrl-C, the current step is completed.  The command says how to resume, and resumes when it is run
    again.
    """
    before = signal.getsignal(number)

    def interrupted(job: Job[Any]) -> Report:
        def stop_requested() -> bool:
            if job.state.read("reached"):
                signal.raise_signal(number)
            return job.stop_requested()

        return PIPELINE.run(replace(job, stop_requested=stop_requested))

    pipelines["counting"] = replace(PIPELINE, run=interrupted)
    code, out, err = counting(command, tmp_path)
    pipelines["counting"] = PIPELINE
    resumed = counting(command, tmp_path)

    assert (ExitCode.INTERRUPTED, before) == (code, signal.getsignal(number))
    assert "records\t1" in out
    assert f"stopped; the same command resumes it from --state {tmp_path}" == err.splitlines()[-1]
    assert (0, "resumes at 1") == (resumed[0], resumed[2].splitlines()[0])


def test_a_second_signal_interrupts_the_step(command: Run, pipelines: dict[str, Pipeline[Any]], tmp_path: Path) -> None:
    """
    A second Ctrl-C ends the run immediately, for a user who cannot wait; the command says how to resume.
    """

    def interrupted(job: Job[Any]) -> Report:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the second signal did not interrupt the run")

    pipelines["counting"] = replace(PIPELINE, run=interrupted)

    code, out, err = counting(command, tmp_path)

    assert (ExitCode.INTERRUPTED, "") == (code, out)
    assert f"interrupted; the same command resumes it from --state {tmp_path}" == err.splitlines()[-1]


def test_the_end_of_a_continuous_run_is_a_signal(
    command: Run, pipelines: dict[str, Pipeline[Any]], tmp_path: Path
) -> None:
    """
    Ctrl-C is the normal end of a continuous run, which then succeeds.
    """

    def until_stopped(job: Job[Any]) -> Report:
        while not job.stop_requested():
            signal.raise_signal(signal.SIGINT)
        return Report({"records": 5})

    pipelines["counting"] = replace(PIPELINE, run=until_stopped)

    code, out, _ = counting(command, tmp_path, "--continuous")

    assert 0 == code and "records\t5" in out


def test_a_terminal_shows_a_bar(command: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """
    A terminal shows a bar with counts, rate and lag, and a line for each completed phase.
    """

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "xterm")

    counting(command, tmp_path)

    shown = terminal.getvalue()
    assert "counting: 3 records in " in shown
    assert "━" in shown and "3 of 3 records, " in shown and "lag 0" in shown


def test_missing_spark_is_named(command: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """
    Without PySpark, the command says what to install.
    """
    from tidemill.cli import pipeline_session

    monkeypatch.setattr(pipeline_session, "find_spec", lambda name: None)

    code, _, err = counting(command, tmp_path)

    assert (2, "tidemill: pipelines need pyspark: pip install 'tidemill[spark]'\n") == (code, err)

"""Exit codes: 0 done, 1 failed, 2 usage, 3 no broker.  None of these needs a broker."""

import json
import time

import pytest

from tests.integration.cli.command import tidemill


@pytest.mark.parametrize(
    "arguments",
    [
        ("--bogus",),
        ("topics", "list", "--bogus"),
        ("topics", "list", "--bootstrap", "nowhere"),
        ("topics", "create", "t", "--config", "retention.ms"),
        ("topics", "alter", "t"),
        ("produce", "t", "--key-separator", ":", "--format", "json"),
        ("consume", "t", "--from", "yesterday"),
        ("dev", "--kafka", "0.0.0.0:0"),
        ("dev", "--brokers", "10"),
        ("dev", "--brokers", "2", "--http", "10.0.0.1:0"),
        ("cluster", "status", "--http", "nowhere"),
        ("broker", "--set", "no.such.key=1"),
    ],
    ids=" ".join,
)
def test_wrong_use_is_2(arguments: tuple[str, ...]) -> None:
    """
    Told before anything is connected or opened.
    """
    finished = tidemill(*arguments)

    assert 2 == finished.exit_code and finished.err


@pytest.mark.parametrize(
    "arguments",
    [("topics", "create"), ("topics", "list", "--bogus"), ("consume", "t", "--max", "0"), ("nonsense",)],
    ids=" ".join,
)
def test_wrong_use_is_json_where_that_was_asked_for(arguments: tuple[str, ...]) -> None:
    """
    Also when it is the parser of the command line that finds it.
    """
    finished = tidemill(*arguments, "--json")

    told = json.loads(finished.err)
    assert (2, 2, "") == (finished.exit_code, told["exit_code"], finished.out)
    assert "--help" in told["message"]


@pytest.mark.parametrize("arguments", [("topics", "list"), ("produce", "t"), ("consume", "t")], ids=" ".join)
def test_no_broker_is_3(arguments: tuple[str, ...]) -> None:
    """
    At once, with what to do about it.
    """
    finished = tidemill(*arguments, "--json", bootstrap="127.0.0.1:1")

    told = json.loads(finished.err)
    assert (3, 3) == (finished.exit_code, told["exit_code"])
    assert "tidemill dev" in told["message"] and "--bootstrap" in told["message"]


def test_no_broker_behind_http_is_3() -> None:
    """
    The same, for what is asked over HTTP.
    """
    finished = tidemill("cluster", "status", "--http", "127.0.0.1:1", "--json")

    told = json.loads(finished.err)
    assert (3, 3, "") == (finished.exit_code, told["exit_code"], finished.out)
    assert "127.0.0.1:1" in told["message"] and "--http" in told["message"]


@pytest.mark.parametrize(
    "command",
    [(), ("dev",), ("broker",), ("produce",), ("consume",), ("topics",), ("topics", "create"), ("cluster", "status")],
    ids=" ".join,
)
def test_help_shows_how_to_begin(command: tuple[str, ...]) -> None:
    """
    With examples that can be copied.
    """
    finished = tidemill(*command, "--help")

    assert 0 == finished.exit_code and "tidemill " in finished.out


def test_help_comes_at_once() -> None:
    """
    Under 0.4 s on an idle machine; the best of five, because this one is not.
    """
    took_s = []
    for _ in range(5):
        started = time.perf_counter()
        tidemill("--help")
        took_s.append(time.perf_counter() - started)

    assert min(took_s) < 0.4

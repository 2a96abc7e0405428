"""Exit codes: 0 done, 1 failed, 2 usage, 3 no broker.  These tests need no broker."""

import json
import socket
from pathlib import Path

import pytest

from tests.integration.cli.command import tidemill


@pytest.mark.parametrize(
    "arguments",
    [
        ("--bogus",),
        ("topics", "list", "--bogus"),
        ("topics", "list", "--bootstrap", "nowhere"),
        ("topics", "list", "--bootstrap", "http://127.0.0.1:9080"),
        ("topics", "create", "t", "--config", "retention.ms"),
        ("topics", "alter", "t"),
        ("configs", "describe"),
        ("configs", "describe", "--topic", "t", "--cluster"),
        ("configs", "set", "--topic", "t", "retention.ms"),
        ("groups", "describe", ""),
        ("groups", "reset", "g"),
        ("groups", "reset", "g", "--to", "yesterday"),
        ("produce", "t", "--key-separator", ":", "--format", "json"),
        ("produce", "t", "--key", "k", "--key-separator", ":"),
        ("produce", "t", "--key", "k", "--format", "json"),
        ("produce", "t", "--header", "=v"),
        ("consume", "t", "--from", "yesterday"),
        ("consume", "t", "--partition", "0", "--group", "g"),
        ("top", "--interval", "0"),
        ("top", "--http", "nowhere"),
        ("pipeline", "describe", "nonsense"),
        ("pipeline", "run", "nonsense"),
        ("pipeline", "run", "audit", "--topic", "t", "--target", "t", "--state", "s"),
        ("bench", "produce", "--records", "0"),
        ("bench", "latency", "--rate", "0"),
        ("dev", "--kafka", "0.0.0.0:0"),
        ("dev", "--brokers", "10"),
        ("dev", "--brokers", "2", "--http", "10.0.0.1:0"),
        ("cluster", "status", "--http", "nowhere"),
        ("cluster", "status", "--http", "127.0.0.1:9080,nowhere"),
        ("broker", "--set", "no.such.key=1"),
    ],
    ids=" ".join,
)
def test_a_usage_error_exits_with_2(arguments: tuple[str, ...]) -> None:
    """
    A usage error is reported before the command connects to a broker or opens a file.
    """
    finished = tidemill(*arguments)

    assert 2 == finished.exit_code and finished.err


@pytest.mark.parametrize(
    "arguments",
    [("topics", "create"), ("topics", "list", "--bogus"), ("consume", "t", "--max", "0"), ("nonsense",)],
    ids=" ".join,
)
def test_a_usage_error_is_json_with_the_json_option(arguments: tuple[str, ...]) -> None:
    """
    With --json all usage errors are JSON, including those found by the command-line parser.
    """
    finished = tidemill(*arguments, "--json")

    told = json.loads(finished.err)
    assert (2, 2, "") == (finished.exit_code, told["exit_code"], finished.out)
    assert "--help" in told["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "list"),
        ("groups", "list"),
        ("configs", "describe", "--cluster"),
        ("produce", "t"),
        ("consume", "t"),
        ("top",),
        ("bench", "produce"),
    ],
    ids=" ".join,
)
def test_a_missing_broker_exits_with_3(arguments: tuple[str, ...]) -> None:
    """
    A command that reaches no broker fails without retrying, and its error names the fix.
    """
    finished = tidemill(*arguments, "--json", bootstrap="127.0.0.1:1")

    told = json.loads(finished.err)
    assert (3, 3) == (finished.exit_code, told["exit_code"])
    assert "tidemill dev" in told["message"] and "--bootstrap" in told["message"]


def test_dev_names_every_option_that_is_wrong(tmp_path: Path) -> None:
    """
    Two wrong options are shown together, each by the name that the user has given.
    """
    finished = tidemill("dev", "--data", str(tmp_path), "--kafka", "here", "--http", "there")

    assert 2 == finished.exit_code
    starts = ["tidemill: 2 settings are refused:", "  --http=there is refused: ", "  --kafka=here is refused: "]
    assert all(map(str.startswith, finished.err.splitlines(), starts)), finished.err


@pytest.mark.parametrize("option", ["--kafka", "--http"])
def test_dev_names_the_option_of_a_port_in_use(option: str, tmp_path: Path) -> None:
    """
    The error names the option to change, not a configuration key, because the user has given the option or relies on
    its default.
    """
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        others = {"--kafka": "127.0.0.1:0", "--http": "127.0.0.1:0", "--data": str(tmp_path)}
        arguments = [text for pair in (others | {option: address}).items() for text in pair]
        finished = tidemill("dev", *arguments)

    assert 1 == finished.exit_code
    assert f"tidemill: {option}={address} cannot be bound" in finished.err


def test_a_missing_http_listener_exits_with_3() -> None:
    """
    A command that reaches no HTTP listener also exits with 3.  It names all addresses that it has tried.
    """
    finished = tidemill("cluster", "status", "--http", "127.0.0.1:1,127.0.0.1:2", "--json")

    told = json.loads(finished.err)
    assert (3, 3, "") == (finished.exit_code, told["exit_code"], finished.out)
    assert all(text in told["message"] for text in ("127.0.0.1:1: ", "127.0.0.1:2: ", "--http", "another broker"))


@pytest.mark.parametrize(
    ("command", "usage"),
    [("produce", "[OPTIONS] TOPIC"), ("topics create", "[OPTIONS] NAME"), ("configs set", "[OPTIONS] KEY=VALUE…")],
)
def test_help_names_arguments_plainly(command: str, usage: str) -> None:
    """
    The usage shows arguments without braces, and shows a number as N.
    """
    shown = tidemill(*command.split(), "--help").out

    assert f"Usage: tidemill {command} {usage}\n" == shown.splitlines(keepends=True)[0]
    assert "range>" not in shown


def test_help_imports_no_large_library() -> None:
    """
    `tidemill --help` stays quick because it imports neither a client nor a broker, nor anything that they need.
    """
    large = {
        "asyncio",
        "confluent_kafka",
        "pyarrow",
        "pydantic",
        "prometheus_client",
        "pyspark",
        "uvicorn",
        "uvloop",
        "yaml",
    }
    finished = tidemill("--help", PYTHONPROFILEIMPORTTIME="1")

    imported = {
        line.rpartition("|")[2].strip() for line in finished.err.splitlines() if line.startswith("import time:")
    }

    assert "tidemill.cli.main" in imported
    assert set() == large & imported
    layers = ("tidemill.app", "tidemill.broker", "tidemill.client", "tidemill.spark")
    assert [] == [name for name in imported if name.startswith(layers)]

"""`tidemill dlq` against a real broker, with letters that an ordinary producer has written."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.integration.cli.command import Finished, new_topic, tidemill

MESSAGES = {
    "rejected": "Offset rejected by client.",
    "limit": "Offset delivery count exceeded the threshold.",
    "expired": "Record expired.",
}


def letter(
    origin: str, offset: int, *, cause: str = "rejected", group: str = "billing", value: str = "{}", **headers: str
) -> bytes:
    """Return a letter as a line for `tidemill produce --format json`."""
    own = {
        "__dlq.errors.topic": origin,
        "__dlq.errors.partition": "0",
        "__dlq.errors.offset": str(offset),
        "__dlq.errors.group": group,
        "__dlq.errors.delivery.count": "5",
        "__dlq.errors.message": MESSAGES[cause],
    }
    row = {"key": f"k{offset}", "value": value, "headers": [*own.items(), *headers.items()]}
    return json.dumps(row).encode() + b"\n"


def run(*arguments: str, bootstrap: str, exit_code: int = 0) -> Finished:
    finished = tidemill("dlq", *arguments, bootstrap=bootstrap)
    assert exit_code == finished.exit_code, finished.err + finished.out
    return finished


def rows(*arguments: str, bootstrap: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*arguments, "--json", bootstrap=bootstrap).out.splitlines()]


def dead_letter_topic(bootstrap: str, lines: Mapping[int, bytes]) -> str:
    """Create a topic with the letters of each partition, and return its name."""
    name = new_topic(bootstrap, partitions=max(lines) + 1)
    for partition, stdin in lines.items():
        produced = tidemill(
            "produce", name, "--format", "json", "--partition", str(partition), stdin=stdin, bootstrap=bootstrap
        )
        assert 0 == produced.exit_code, produced.err
    return name


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    """Return a topic with two partitions and five letters."""
    first = b"".join(
        letter("orders", offset, cause=cause, value=json.dumps({"region": region, "items": [offset]}), code=code)
        for offset, cause, region, code in (
            (8, "rejected", "eu", "400"),
            (9, "limit", "eu", "503"),
            (10, "limit", "us", "503"),
        )
    )
    second = letter("payments", 3, cause="expired", group="audit", value="not json") + b'{"value": "no letter"}\n'
    return dead_letter_topic(bootstrap, {0: first, 1: second})


def test_letters_are_shown_with_their_origin(bootstrap: str, topic: str) -> None:
    """
    Every record of the topic is shown, also one that is no letter, for people and for programs.
    """
    shown = rows("show", topic, bootstrap=bootstrap)
    text = run("show", topic, bootstrap=bootstrap).out

    assert [("orders", 8), ("orders", 9), ("orders", 10), ("payments", 3), (None, None)] == [
        (it["origin"]["topic"], it["origin"]["offset"]) for it in shown
    ]
    assert ("rejected", "billing", 5, "k8", [["code", "400"]]) == tuple(
        shown[0][field] for field in ("cause", "group", "attempts", "key", "headers")
    )
    assert 5 == text.count("letter    ") and "origin    orders-0, offset 8\n" in text


@pytest.mark.parametrize(
    ("where", "offsets"),
    [
        ("cause = limit and value./region = eu", [9]),
        ("offset >= 9 and topic = orders", [9, 10]),
        ("header.code >= 500", [9, 10]),
        ("value./items/0 < 10 and age < 1h", [8, 9]),
        ("group != billing", [3, None]),
        ("value ~ json and key = k3", [3]),
        ("age > 1d", []),
    ],
)
def test_conditions_select_letters(bootstrap: str, topic: str, where: str, offsets: list[int | None]) -> None:
    """
    `--where` selects letters by what is known about the dead record, its headers and its value.
    """
    shown = rows("show", topic, "--where", where, bootstrap=bootstrap)

    assert offsets == [it["origin"]["offset"] for it in shown]


def test_the_number_of_shown_letters_is_limited(bootstrap: str, topic: str) -> None:
    """
    `--max` ends the list, and a note says that there is more.
    """
    finished = run("show", topic, "--max", "2", "--json", bootstrap=bootstrap)

    assert 2 == len(finished.out.splitlines())
    assert "tidemill: there are more; the first 2 are shown (--max)\n" == finished.err


def test_an_invalid_condition_is_a_usage_error(bootstrap: str) -> None:
    """
    The error points at the position, before any broker is asked.
    """
    failed = run("show", "any", "--where", "offset > five", bootstrap="127.0.0.1:1", exit_code=2)

    assert "--where: expected a whole number" in failed.err and "\n           ^\n" in failed.err


def test_letters_are_counted(bootstrap: str, topic: str) -> None:
    """
    The counts of each table add up to the number of letters that the condition selects.
    """
    (all_,) = rows("stats", topic, bootstrap=bootstrap)
    (some,) = rows("stats", topic, "--where", "header.code = 503", bootstrap=bootstrap)
    text = run("stats", topic, bootstrap=bootstrap).out

    assert {"limit": 2, "expired": 1, "rejected": 1, "unknown": 1} == all_["causes"]
    assert {"orders": 3, "payments": 1, "unknown": 1} == all_["origin_topics"]
    assert {"billing": 3, "audit": 1, "unknown": 1} == all_["groups"]
    assert 5 == all_["letters"] == sum(all_["hours"].values()) and all_["oldest"] <= all_["newest"]
    assert (2, {"limit": 2}) == (some["letters"], some["causes"])
    assert "letters  5\n" in text and "limit\t2\n" in text


def test_a_dry_run_says_what_would_be_sent(bootstrap: str) -> None:
    """
    A dry run counts letters by target, and says why others cannot be sent.  It changes nothing.
    """
    origin = new_topic(bootstrap)
    lines = letter(origin, 1) + letter(origin, 2) + letter("gone", 3) + b'{"value": "no letter"}\n'
    lines += letter(origin, 4, **{"__dlq.errors.omitted": "too large"})
    topic = dead_letter_topic(bootstrap, {0: lines})

    (row,) = rows("redrive", topic, "--dry-run", bootstrap=bootstrap)
    text = run("redrive", topic, "--dry-run", "--where", "offset < 4", bootstrap=bootstrap).out

    assert (2, {origin: 2}, 2, 0) == (row["selected"], row["targets"], row["would_send"], row["sent_before"])
    assert {"no_origin": 1, "no_content": 1, "unknown_topic": 1} == row["skipped"]
    assert (
        f"2 letters would be sent back; selected: {origin} (2)\n" in text and "topics that do not exist: gone\n" in text
    )
    assert 0 == len(tidemill("consume", origin, bootstrap=bootstrap).out)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (("show", "missing"), 1, "UNKNOWN_TOPIC_OR_PARTITION: topic 'missing'"),
        (("redrive", "T", "--to", "T"), 2, "that is the dead-letter topic itself"),
        (("redrive", "T", "--to", "missing"), 1, "UNKNOWN_TOPIC_OR_PARTITION: --to missing: it does not exist"),
        (("redrive", "T", "--rate", "fast"), 2, "--rate 'fast': expected letters a second"),
    ],
)
def test_errors_name_the_fix(
    bootstrap: str, topic: str, arguments: tuple[str, ...], exit_code: int, message: str
) -> None:
    """
    What cannot be done is refused before anything is sent.
    """
    finished = run(*(topic if it == "T" else it for it in arguments), bootstrap=bootstrap, exit_code=exit_code)

    assert message in finished.err

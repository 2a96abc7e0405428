"""The support ledger says what the broker answers, neither more nor less."""

import re
from pathlib import Path

from tidemill.broker.connection.dispatch import HANDLERS
from tidemill.wire.api import ALL

LEDGER = Path(__file__).resolve().parents[2] / "docs" / "protocol" / "support.md"
A_ROW = re.compile(r"^\| (?P<key>\d+) \| (?P<name>\w+) \| (?P<first>\d+)-(?P<last>\d+) \|", re.MULTILINE)


def test_the_ledger_lists_what_the_broker_answers() -> None:
    """
    Every API that has a handler, with the versions that ApiVersions tells, and no other.
    """
    answered = {key: (ALL[key].versions.start, ALL[key].versions.stop - 1) for key in HANDLERS}

    listed = {int(row["key"]): (int(row["first"]), int(row["last"])) for row in A_ROW.finditer(LEDGER.read_text())}

    assert answered == listed


def test_the_ledger_calls_an_api_by_the_name_of_its_file() -> None:
    """
    `wire/messages/heartbeat.py` is Heartbeat.
    """
    named = {int(row["key"]): row["name"] for row in A_ROW.finditer(LEDGER.read_text())}

    files = {key: ALL[key].request.__module__.rpartition(".")[2].replace("_", "") for key in named}

    assert files == {key: name.lower() for key, name in named.items()}


def test_the_ledger_names_what_is_known_and_not_spoken() -> None:
    """
    An API whose messages are declared and that nobody answers is left out, and the page says so.
    """
    left_out = LEDGER.read_text().partition("## Not spoken")[2].replace("`", "")
    unanswered = [ALL[key].name.replace("_", "") for key in sorted(ALL.keys() - HANDLERS.keys())]

    assert [] == [name for name in unanswered if name not in left_out.lower()]

"""The page of supported APIs agrees with the code."""

import re
from pathlib import Path

from tidemill.broker.connection.dispatch import OFFERED
from tidemill.wire.api import ALL

LEDGER = Path(__file__).resolve().parents[2] / "docs" / "protocol" / "support.md"
A_ROW = re.compile(r"^\| (?P<key>\d+) \| (?P<name>\w+) \| (?P<first>\d+)-(?P<last>\d+) \|", re.MULTILINE)


def test_the_page_lists_every_api_with_a_handler() -> None:
    """
    `docs/protocol/support.md` lists exactly the APIs with a handler, in the versions that ApiVersions advertises.
    """
    answered = {key: (ALL[key].versions.start, ALL[key].versions.stop - 1) for key in OFFERED}

    listed = {int(row["key"]): (int(row["first"]), int(row["last"])) for row in A_ROW.finditer(LEDGER.read_text())}

    assert answered == listed


def test_the_page_uses_the_file_names_of_apis() -> None:
    """
    `docs/protocol/support.md` names APIs after their files: the API in `wire/messages/heartbeat.py` is Heartbeat.
    """
    named = {int(row["key"]): row["name"] for row in A_ROW.finditer(LEDGER.read_text())}

    files = {key: ALL[key].request.__module__.rpartition(".")[2].replace("_", "") for key in named}

    assert files == {key: name.lower() for key, name in named.items()}


def test_the_page_lists_declared_apis_without_a_handler() -> None:
    """
    An API whose messages are declared but that has no handler is listed as unsupported.
    """
    left_out = LEDGER.read_text().partition("## Not spoken")[2].replace("`", "")
    unanswered = [ALL[key].name.replace("_", "") for key in sorted(ALL.keys() - OFFERED.keys())]

    assert [] == [name for name in unanswered if name not in left_out.lower()]

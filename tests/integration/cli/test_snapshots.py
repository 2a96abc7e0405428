"""The output of commands on a terminal, compared with the files in `snapshots`.

`TIDEMILL_WRITE_SNAPSHOTS=1 python -m pytest tests/integration/cli/test_snapshots.py` rewrites the files.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration.cli.dev_broker import running_broker
from tests.integration.cli.group_in_use import member_of
from tests.integration.cli.terminal import on_terminal

SNAPSHOTS = Path(__file__).parent / "snapshots"


class Step(NamedTuple):
    command: str
    answer: str = ""  # what the user types when the command asks a question
    piped: str | None = None  # text that a pipe delivers to the command's stdin, shown as `printf … |`


STEPS: dict[str, list[Step]] = {
    "topics": [
        Step("topics create orders --partitions 2 --config retention.ms=86400000"),
        Step("topics create readings --partitions 1"),
        Step("topics list"),
        Step("topics describe orders"),
        Step("topics describe readings"),
        Step("topics describe missing"),
        Step("topics create unwanted --partitions 1"),
        Step("topics delete unwanted", answer="n"),
        Step("topics delete unwanted", answer="y"),
    ],
    "records": [
        Step("produce readings", piped="20.1\n"),
        Step("produce readings", piped="20.4\n20.3\n"),
        Step("produce readings --key-separator :", piped="attic\n"),
        Step("produce reading", piped="20.1\n"),
        Step("consume readings --partition 0"),
        Step("consume readings --partition 1"),
    ],
    "groups": [
        Step("groups reset billing --to offset:1"),
        Step("groups reset billing --to offset:1 --topic readings --topic orders"),
        Step("groups reset billing --to offset:1 --topic readings --execute"),
        Step("groups list"),
        Step("groups describe billing"),
        Step("groups reset billing --to offset:9"),
        Step("groups reset billing --to earliest --execute"),
    ],
    "group_in_use": [
        Step("groups describe billing"),
        Step("groups reset billing --to latest"),
        Step("groups delete billing"),
    ],
    "group_deleted": [
        Step("groups delete billing", answer="n"),
        Step("groups delete billing", answer="y"),
        Step("groups describe billing"),
        Step("topics list --all"),
    ],
    "configs": [
        Step("configs describe --topic orders"),
        Step("configs describe --topic orders cleanup.policy retention.ms"),
        Step("configs set --topic orders retention.ms=soon"),
        Step("configs unset --topic orders retention.ms"),
        Step("configs describe --topic orders"),
        Step("configs describe --cluster"),
        Step("configs set --cluster log.retention.ms=604800000"),
        Step("configs describe --cluster"),
        Step("configs describe --broker 1 listeners log.retention.ms tidemill.cluster.key"),
        Step("configs describe --broker 7"),
    ],
    "pipelines": [
        Step("pipeline list"),
        Step("pipeline describe audi"),
    ],
}
"""The steps of each snapshot.  They run in this order on one broker."""

PLACEHOLDERS = [
    (re.compile(r"(?<=127\.0\.0\.1:)\d{5}"), "PORT_"),
    (re.compile(r"(?<=topic id            )[\w-]{22}"), "TOPIC_ID"),
    (re.compile(r"(?<=│ )[\w-]{22}(?= │ +\d)"), "TOPIC_ID".ljust(22)),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "MEMBER_UUID".ljust(36, "_")),
]
"""Patterns for text that differs between runs, and their replacements, which have the same width in tables."""


@pytest.fixture(scope="module")
def transcripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """
    Yield the text of each snapshot.  The commands use their own broker, because `topics list` shows the topics of all
    tests.
    """
    with running_broker(tmp_path_factory.mktemp("snapshots")) as ready:
        bootstrap = ready["kafka"]
        told = {}
        for name, steps in STEPS.items():
            if name == "group_in_use":
                with member_of(bootstrap, "billing", "readings"):
                    told[name] = _transcript(steps, bootstrap)
            else:
                told[name] = _transcript(steps, bootstrap)
        yield told


def _transcript(steps: list[Step], bootstrap: str) -> str:
    text = ""
    for step in steps:
        finished = on_terminal(*step.command.split(), bootstrap=bootstrap, answer=step.answer, piped=step.piped)
        pipe = "" if step.piped is None else f"printf {step.piped!r} | "
        code = f"(exit code {finished.exit_code})\n" if finished.exit_code else ""
        text += f"$ {pipe}tidemill {step.command}\n{finished.out}{code}\n"
    for pattern, placeholder in PLACEHOLDERS:
        text = pattern.sub(placeholder, text)
    return text


@pytest.mark.parametrize("name", STEPS)
def test_the_output_on_a_terminal_is_the_recorded_one(name: str, transcripts: dict[str, str]) -> None:
    """
    The output on a terminal changes only on purpose: a snapshot that changes must be rewritten and reviewed.
    """
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("TIDEMILL_WRITE_SNAPSHOTS"):
        path.write_text(transcripts[name])

    assert path.read_text() == transcripts[name]

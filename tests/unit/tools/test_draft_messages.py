"""The drafts of message files equal the committed files."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path("tools/draft_messages.py")
MESSAGES = Path("src/tidemill/wire/messages")


@pytest.mark.parametrize("name", ["fetch", "add_partitions_to_txn", "offset_delete"])
def test_a_message_file_equals_its_draft_from_kafkas_schema(name: str) -> None:
    """
    A message file equals its draft from Kafka's schema, so no field, version, default or tag was edited manually.
    """
    committed = (MESSAGES / f"{name}.py").read_text()

    drafted = subprocess.run([sys.executable, TOOL, name], capture_output=True, text=True, check=True).stdout

    assert _formatted(drafted) == committed


def _formatted(text: str) -> str:
    for command in (["check", "--fix", "--quiet"], ["format"]):
        arguments = ["ruff", *command, "--stdin-filename", str(MESSAGES / "drafted.py"), "-"]
        text = subprocess.run([sys.executable, "-m", *arguments], input=text, capture_output=True, text=True).stdout
    return text

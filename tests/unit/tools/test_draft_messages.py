"""The drafts of message files are what the message files are."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path("tools/draft_messages.py")
MESSAGES = Path("src/tidemill/wire/messages")


@pytest.mark.parametrize("name", ["fetch", "add_partitions_to_txn", "offset_delete"])
def test_a_message_file_is_what_is_drafted_from_kafka_s_schema(name: str) -> None:
    """
    No field, version, default or tag was changed by hand: what stands in the file is the protocol.
    """
    committed = (MESSAGES / f"{name}.py").read_text()

    drafted = subprocess.run([sys.executable, TOOL, name], capture_output=True, text=True, check=True).stdout

    assert _formatted(drafted) == committed


def _formatted(text: str) -> str:
    for command in (["check", "--fix", "--quiet"], ["format"]):
        arguments = ["ruff", *command, "--stdin-filename", str(MESSAGES / "drafted.py"), "-"]
        text = subprocess.run([sys.executable, "-m", *arguments], input=text, capture_output=True, text=True).stdout
    return text

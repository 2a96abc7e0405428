"""Rewrite the table of `docs/protocol/support.md` from the broker's handlers, and keep its notes.

python tools/support_ledger.py
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEDGER = ROOT / "docs" / "protocol" / "support.md"
HEAD = "| key | API | versions | not supported |\n|---|---|---|---|\n"
_ROW = re.compile(r"^\| (\d+) \| \w+ \| \d+-\d+ \| ?(.*?) ?\|$", re.MULTILINE)


def table(notes: dict[int, str]) -> str:
    """Return a row for each API of Kafka that has a handler, in the order of the keys."""
    sys.path.insert(0, str(ROOT / "src"))
    from tidemill.broker.connection.dispatch import OFFERED

    rows = []
    for key, api in sorted(OFFERED.items()):
        versions = api.versions
        name = api.request.__module__.rpartition(".")[2].title().replace("_", "")
        rows.append(f"| {key} | {name} | {versions.start}-{versions.stop - 1} | {notes.get(key, '')} |\n")
    return HEAD + "".join(rows)


def main() -> None:
    text = LEDGER.read_text()
    notes = {int(key): note for key, note in _ROW.findall(text)}
    before, _, rest = text.partition(HEAD)
    after = rest[rest.index("\n\n") + 1 :] if "\n\n" in rest else ""
    LEDGER.write_text(before + table(notes) + after)


if __name__ == "__main__":
    main()

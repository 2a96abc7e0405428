"""The output directory: tables as Parquet, charts as PNG, one HTML page, and the figures as JSON."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PER_MINUTE: Final = "per_minute"
HOT_KEYS: Final = "hot_keys"
KEY_HASH: Final = "key_hash"
CHARTS: Final = "charts"
PAGE: Final = "index.html"
SUMMARY: Final = "stats.json"
FORMAT: Final = 1


class OutputRefused(ValueError):
    """The output directory contains the results of another topic, or other files."""


class Output:
    """Writes the results.  A later run for the same topic replaces them; the summary is replaced last."""

    def __init__(self, directory: Path, topic: str) -> None:
        self.directory = directory
        self._topic = topic

    def check(self) -> None:
        """Raise OutputRefused if the directory contains the results of another topic, or files that are not results."""
        if not self.directory.exists():
            return
        try:
            found = json.loads((self.directory / SUMMARY).read_bytes()).get("topic")
        except FileNotFoundError:
            found = None
        except (ValueError, AttributeError):
            raise OutputRefused(f"to={self.directory}: {SUMMARY} in it is damaged; use another directory") from None
        if found not in (None, self._topic):
            raise OutputRefused(
                f"to={self.directory}: it has the statistics of topic {found!r}; use another directory for "
                f"{self._topic!r}"
            )
        if found is None and any(self.directory.iterdir()):
            raise OutputRefused(f"to={self.directory}: it has other files, which a run might replace; use an empty one")

    def begin(self) -> None:
        """Create the directory and mark it, so that a resumed run recognizes it."""
        if not (self.directory / SUMMARY).exists():
            self.write_summary({})

    def path(self, name: str) -> str:
        return str(self.directory / name)

    def write(self, table: "DataFrame", name: str) -> None:
        table.write.mode("overwrite").parquet(self.path(name))

    def remove_per_minute(self) -> None:
        """Remove the table `per_minute`, which is not written for a range without records."""
        shutil.rmtree(self.directory / PER_MINUTE, ignore_errors=True)

    def write_charts(self, pictures: Mapping[str, bytes]) -> None:
        """Write the charts by name, and remove those of an earlier run."""
        folder = self.directory / CHARTS
        folder.mkdir(parents=True, exist_ok=True)
        for name, picture in pictures.items():
            _replace(folder / f"{name}.png", picture)
        for old in folder.glob("*.png"):
            if old.stem not in pictures:
                old.unlink()

    def write_page(self, page: str) -> None:
        _replace(self.directory / PAGE, page.encode())

    def write_summary(self, values: Mapping[str, Any]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        summary = {"format": FORMAT, "topic": self._topic, **values}
        _replace(self.directory / SUMMARY, json.dumps(summary, ensure_ascii=False, indent=1).encode() + b"\n")


def _replace(path: Path, content: bytes) -> None:
    """Replace a file atomically, so that a reader sees either the old or the new content."""
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(content)
    new.replace(path)

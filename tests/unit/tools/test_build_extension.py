"""The build of `batches/scan.py`, tested with a fake compiler."""

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tidemill.batches.scan_build import compiled_name
from tools import build_extension


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder with a source, and install a fake compiler that creates an empty file of the right name."""
    batches = tmp_path / "src" / "tidemill" / "batches"
    batches.mkdir(parents=True)
    (batches / "scan.py").write_bytes(b"one")
    monkeypatch.setattr(build_extension, "ROOT", tmp_path)
    monkeypatch.setattr(build_extension, "BATCHES", batches)
    monkeypatch.setattr(build_extension, "_compile", lambda: build_of(batches).touch())
    monkeypatch.setattr(build_extension.shutil, "which", lambda compiler: f"/usr/bin/{compiler}")
    return batches


def build_of(folder: Path) -> Path:
    return folder / (compiled_name((folder / "scan.py").read_bytes()) + EXTENSION_SUFFIXES[0])


def test_a_stale_build_is_replaced(folder: Path):
    """When the source has changed, the new build has another name, and the old build is removed."""
    first = build_extension.build()
    (folder / "scan.py").write_bytes(b"two")

    second = build_extension.build()

    assert first is not None and second is not None
    assert (second, True, False) == (build_of(folder), second.exists(), first.exists())


def test_an_existing_build_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """An existing build of the same source is kept, because every run of `make` starts the tool."""
    kept = build_extension.build()
    monkeypatch.setattr(build_extension, "_compile", lambda: pytest.fail("compiled again"))

    assert build_extension.build() == kept


def test_without_a_compiler_there_is_no_build(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Without a compiler there is no build and no error: `scan.py` runs as plain Python."""
    monkeypatch.setattr(build_extension.shutil, "which", lambda compiler: None)

    assert build_extension.build() is None

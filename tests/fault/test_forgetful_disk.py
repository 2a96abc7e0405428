"""The forgetful disk loses only unsynced data, and only when the power is cut."""

import os
from pathlib import Path

import pytest

from tests.fault.power_switch import mounted, skip_without_fuse


@pytest.mark.timeout(60)
def test_unsynced_data_is_lost(tmp_path: Path) -> None:
    """A power loss discards unsynced pages of a file and unsynced names of a directory, and keeps all synced ones."""
    skip_without_fuse()
    with mounted(tmp_path / "disk") as power:
        number = os.open(power.root / "file", os.O_RDWR | os.O_CREAT)
        os.pwrite(number, b"a" * 8192, 0)
        os.fdatasync(number)
        sync_directory(power.root)
        os.pwrite(number, b"b" * 4096, 4096)
        os.pwrite(number, b"c", 8192)
        os.close(number)
        (power.root / "unsynced").write_bytes(b"d")

        power.lose_all()

        assert ["file"] == os.listdir(power.root)
        assert b"a" * 8192 == (power.root / "file").read_bytes()


@pytest.mark.timeout(60)
def test_a_seed_decides_what_is_kept_lost_or_torn(tmp_path: Path) -> None:
    """A power loss with a seed keeps some pages, loses some and tears some.  Each sector of a torn page is either old
    or new.
    """
    skip_without_fuse()
    with mounted(tmp_path / "disk") as power:
        number = os.open(power.root / "file", os.O_RDWR | os.O_CREAT)
        os.pwrite(number, b"a" * 4096 * 64, 0)
        os.fdatasync(number)
        sync_directory(power.root)
        os.pwrite(number, b"b" * 4096 * 64, 0)
        os.close(number)

        power.lose(7)

        content = (power.root / "file").read_bytes()
        pages = [content[at : at + 4096] for at in range(0, len(content), 4096)]
        assert {b"a" * 4096, b"b" * 4096} < set(pages)
        assert all(len(set(page[at : at + 512])) == 1 for page in pages for at in range(0, 4096, 512))


def sync_directory(directory: Path) -> None:
    number = os.open(directory, os.O_RDONLY)
    os.fsync(number)
    os.close(number)

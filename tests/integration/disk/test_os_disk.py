"""OsDisk fulfils the contract of the Disk port and gives some additional guarantees."""

import errno
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.disk.disk_contract import DiskContract
from tidemill.runtime import os_disk
from tidemill.runtime.os_disk import OsDisk
from tidemill.storage.disk import DiskFull, SyncFailed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "above" / "data"


@pytest.fixture
def disk(root: Path) -> Iterator[OsDisk]:
    disk = OsDisk(root)
    yield disk
    disk.unlock()


def test_what_is_kept_for_root_does_not_fill_a_disk(disk: OsDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk of 1,000 blocks, of which 400 are in use and 500 are kept for root, is 80 % full, as `df` shows it."""
    kept = os.statvfs_result((4096, 4096, 1_000, 600, 100, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: kept)

    assert (500 * 4096, 100 * 4096) == (disk.total_space(), disk.free_space())


class TestOsDisk(DiskContract):
    @pytest.fixture
    def disk(self, root: Path) -> Iterator[OsDisk]:
        disk = OsDisk(root)
        yield disk
        disk.unlock()

    @pytest.fixture
    def beside(self, root: Path, disk: OsDisk) -> OsDisk:
        return OsDisk(root)


def test_files_and_directories_are_accessible_to_the_owner_only(disk: OsDisk, root: Path) -> None:
    """Only the owner can access directories (mode 0700) and files (0600), whatever the umask allows."""
    disk.make_directory("d/e")
    disk.open("d/e/a", create=True)
    disk.lock()

    modes = [os.stat(root / path).st_mode & 0o777 for path in ("", "d", "d/e", "d/e/a", "LOCK")]

    assert modes == [0o700, 0o700, 0o700, 0o600, 0o600]


def test_make_directory_survives_the_removal_of_a_parent(
    disk: OsDisk, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make_directory` succeeds even if another thread removes the parent directory while it is still empty."""
    mkdir = os.mkdir
    gone = []

    def without_parent(path: str, *more: int) -> None:
        if path.endswith("/y") and not gone:
            gone.append(os.rmdir(root / "x"))
        mkdir(path, *more)

    monkeypatch.setattr(os, "mkdir", without_parent)

    disk.make_directory("x/y")

    assert (1, True) == (len(gone), disk.exists("x/y"))


def test_short_writes_are_continued(disk: OsDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short write is continued where it stopped, within a part or between parts."""
    file = disk.open("a", create=True)
    parts = [b"%07d" % number for number in range(3000)]
    whole, calls = os.pwritev, 0

    def short(descriptor: int, buffers: list[bytes], position: int) -> int:
        nonlocal calls
        calls += 1
        taken = b"".join(buffers)[: 1 + calls * 137 % 5000]
        return whole(descriptor, [taken], position)

    monkeypatch.setattr(os, "pwritev", short)
    file.write(11, parts)

    assert file.read(11, 1 << 20) == b"".join(parts)
    assert calls > 5


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_no_space_and_quota_errors_are_disk_full(disk: OsDisk, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """ENOSPC and EDQUOT raise DiskFull, whether a file is written, created or renamed."""
    file = disk.open("a", create=True)

    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    for name in ("pwritev", "ftruncate", "open", "rename", "mkdir"):
        monkeypatch.setattr(os, name, refuse)

    for act in (
        lambda: file.write(0, [b"x"]),
        lambda: file.truncate(10),
        lambda: disk.open("b", create=True),
        lambda: disk.rename("a", "b"),
        lambda: disk.make_directory("d"),
    ):
        with pytest.raises(DiskFull):
            act()


def test_other_errors_of_a_write_are_not_disk_full(disk: OsDisk) -> None:
    """An error such as exceeding the process's file size limit does not raise DiskFull."""
    file = disk.open("a", create=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        with pytest.raises(OSError) as caught:
            file.write(8000, [b"x" * 1000])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert (caught.value.errno, isinstance(caught.value, DiskFull)) == (errno.EFBIG, False)


def test_a_full_device_raises_disk_full() -> None:
    """A write to /dev/full raises DiskFull."""
    full = os_disk.OsFile(os.open("/dev/full", os.O_RDWR), "full")

    with pytest.raises(DiskFull):
        full.write(0, [b"x" * 4096])


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EINVAL])
def test_any_error_of_a_sync_is_sync_failed(disk: OsDisk, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """A failed sync raises SyncFailed whatever its cause, because data that should be durable may be lost."""
    file = disk.open("a", create=True)

    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fdatasync", fail)
    monkeypatch.setattr(os, "fsync", fail)

    with pytest.raises(SyncFailed) as of_file:
        file.sync()
    with pytest.raises(SyncFailed) as of_directory:
        disk.sync_directory("")
    assert of_file.value.errno == of_directory.value.errno == number


def test_cached_data_is_read_without_the_disk(disk: OsDisk) -> None:
    """A cached read finds recently written data in the page cache if the file system supports RWF_NOWAIT."""
    file = disk.open("a", create=True)
    file.write(0, [b"x" * 100_000])

    cached = file.read_cached(0, 200_000)

    if cached is None:
        pytest.skip("this file system does not support RWF_NOWAIT")
    assert cached == b"x" * 100_000


def test_a_partly_cached_range_is_not_returned(disk: OsDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cached read that ends early in the middle of a file returns None."""
    file = disk.open("a", create=True)
    file.write(0, [b"x" * 100_000])
    whole = os.preadv
    monkeypatch.setattr(
        os, "preadv", lambda number, buffers, *rest: whole(number, [memoryview(buffers[0])[:4096]], *rest)
    )

    assert file.read_cached(0, 50_000) is None


@pytest.mark.parametrize(("number", "asks_again"), [(errno.EAGAIN, True), (errno.EOPNOTSUPP, False)])
def test_a_read_that_would_block_returns_none(
    disk: OsDisk, monkeypatch: pytest.MonkeyPatch, number: int, asks_again: bool
) -> None:
    """A cached read that would block returns None.  If the file system does not support cached reads, they are not
    tried again.
    """
    file = disk.open("a", create=True)
    file.write(0, [b"x"])
    calls = 0

    def refuse(*_: object) -> int:
        nonlocal calls
        calls += 1
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "preadv", refuse)
    reads = [file.read_cached(0, 1), file.read_cached(0, 1)]

    assert (reads, calls) == ([None, None], 2 if asks_again else 1)


def test_short_reads_are_continued(disk: OsDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short read in the middle of a file is continued, because it does not mean the end of the file."""
    file = disk.open("a", create=True)
    file.write(0, [bytes(range(250)) * 40])
    whole = os.pread
    monkeypatch.setattr(os, "pread", lambda number, size, position: whole(number, min(size, 3333), position))

    assert file.read(5, 20_000) == (bytes(range(250)) * 40)[5:]


def test_a_file_can_be_closed_while_it_is_read(disk: OsDisk) -> None:
    """If a file is closed during a read, the reader gets its bytes or a ValueError, never the bytes of a file that
    reuses the descriptor number.
    """
    for path, byte in (("mine", b"m"), ("other", b"o")):
        disk.open(path, create=True).write(0, [byte * 65536])
    seen: set[bytes] = set()
    current = [disk.open("mine")]
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            try:
                seen.add(current[0].read(0, 65536)[:1])
            except ValueError:
                seen.add(b"closed")

    readers = [threading.Thread(target=read) for _ in range(3)]
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)  # otherwise each step would wait 5 ms for each reader
    try:
        for reader in readers:
            reader.start()
        for _ in range(20_000):
            current[0].close()
            other = disk.open("other")  # reuses the descriptor number if it is free
            current[0] = disk.open("mine")
            other.close()
    finally:
        over.set()
        for reader in readers:
            reader.join()
        sys.setswitchinterval(interval_s)

    assert seen <= {b"m", b"closed"}
    assert b"m" in seen


def test_a_closed_file_releases_its_descriptor(disk: OsDisk) -> None:
    """Closing a file releases its descriptor, so that idle shards have no open files."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        disk.open("a", create=True).close()

    assert len(os.listdir("/proc/self/fd")) == before


def test_the_lock_ends_with_its_process(root: Path) -> None:
    """
    The lock ends with the process that holds it, even if that process is killed.  While the lock is held, another
    process gets the holder's pid.
    """
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from tidemill.runtime.os_disk import OsDisk\n"
            "disk = OsDisk(sys.argv[1]); disk.lock(); print('held', flush=True); sys.stdin.read()",
            str(root),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        disk = OsDisk(root)

        with pytest.raises(BlockingIOError, match=f"in use by process {holder.pid}"):
            disk.lock()
        holder.kill()
        holder.wait()
        disk.lock()

    disk.unlock()


def test_read_only_changes_nothing(disk: OsDisk, root: Path) -> None:
    """A read-only disk creates and changes nothing, so that tools can inspect a directory while its broker runs."""
    disk.open("a", create=True).write(0, [b"x"])
    looking = OsDisk(root, read_only=True)

    for act in (
        lambda: looking.open("a").write(0, [b"y"]),
        lambda: looking.make_directory("d"),
        lambda: looking.rename("a", "b"),
        lambda: looking.remove("a"),
        lambda: looking.sync_directory(""),
        lambda: looking.lock(),
    ):
        with pytest.raises(OSError):
            act()
    with pytest.raises(FileNotFoundError):
        looking.open("b", create=True)
    OsDisk(root / "nowhere", read_only=True)

    assert (looking.open("a").read(0, 1), os.listdir(root)) == (b"x", ["a"])

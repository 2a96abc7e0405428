"""The simulated disk: the Disk port in memory, with everything that a real one may do to data that was not synced.

A test runs code on a `SimulatedDisk` and stops at any of its operations: by `cut_before = n`, after which the code
meets `PowerLost` everywhere, or without stopping it, by looking from `before_operation`.  Then it asks for the disk
that the next start would find:

    disk.after_power_loss(fate)    the cache is lost; `simulation/machine/crash_fate.py` decides what else survives
    disk.after_kill()              only the process is gone; the cache is there, and still not synced

Both leave this disk as it is and share its bytes until one side writes, so that a state costs microseconds.
What counts as an operation: write, truncate, sync, and each name made, renamed, removed or synced; reading is free.

A failed sync (`fail_sync_at`) leaves pages clean, visible and not durable; a failed directory sync leaves the names as
they were, because file systems keep those in a journal of their own.  Space is counted in pages of file size, and
comes back when a name is removed.  Not modelled: read errors, latency, hard links, writes that land in a wrong place.
"""

import errno
import threading
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha1
from typing import Final, NoReturn

from tidemill.simulation.machine.crash_fate import (
    ALL_SECTORS,
    PAGE,
    Fate,
    Unsynced,
    UnsyncedName,
    UnsyncedPage,
    UnsyncedSize,
    torn_head,
    torn_tail,
)
from tidemill.simulation.machine.disk_content import Content
from tidemill.simulation.machine.disk_names import Directory, NameChange, Node, dependent, made_durable
from tidemill.simulation.machine.disk_operation import Kind, Operation, PowerLost
from tidemill.storage.disk import Buffer, DiskFull, SyncFailed
from tidemill.storage.disk_path import file_parts, path_parts

ENDLESS: Final = 1 << 40


class _State:
    """What a machine's processes share: names, contents, and who holds the lock."""

    __slots__ = ("changes_made", "contents_made", "locked_by", "pending", "root")

    def __init__(self) -> None:
        self.root = Directory()
        self.pending: list[NameChange] = []
        self.contents_made = 0
        self.changes_made = 0
        self.locked_by: SimulatedDisk | None = None


class SimulatedDisk:
    def __init__(self) -> None:
        self.operations = 0
        """How many were carried out."""
        self.log: list[Operation] = []
        self.cut_before: int | None = None
        """The number of the operation before which the power goes."""
        self.fail_sync_at: int | None = None
        """The number of the operation from which on the next sync, or directory sync, fails; one only."""
        self.before_operation: Callable[[Operation], None] | None = None
        self.free_bytes: int | None = None
        """None: endless."""
        self.full_writes_part = True
        """Whether a write for which there is no room leaves what still fitted, as Linux does, or nothing."""
        self.reads_cached = True
        """False: `read_cached` never knows, which leads all reads the slow way."""
        self.power_lost = False
        self.opened = 0
        self._state = _State()
        self._turn = threading.RLock()  # files may be used by several threads

    # The Disk port.

    def open(self, path: str, *, create: bool = False) -> "SimulatedFile":
        with self._turn:
            self._check_power()
            directory, name = self._place(path)
            node = directory.names.get(name)
            if isinstance(node, Directory):
                _refuse(IsADirectoryError, errno.EISDIR, path)
            if node is None:
                if not create:
                    _refuse(FileNotFoundError, errno.ENOENT, path)
                self._begin(Kind.CREATE, path)
                self._state.contents_made += 1
                node = Content(self._state.contents_made)
                self._change(path, (directory, name, node))
            self.opened += 1
            return SimulatedFile(self, node, path)

    def exists(self, path: str) -> bool:
        with self._turn:
            self._check_power()
            return self._find(path) is not None

    def list(self, path: str) -> Sequence[str]:
        with self._turn:
            self._check_power()
            node = self._find(path)
            if isinstance(node, Content):
                _refuse(NotADirectoryError, errno.ENOTDIR, path)
            return sorted(node.names) if node is not None else ()

    def make_directory(self, path: str) -> None:
        with self._turn:
            self._check_power()
            directory, parts = self._state.root, path_parts(path)
            for depth, name in enumerate(parts, 1):
                node = directory.names.get(name)
                if node is None:
                    upto = "/".join(parts[:depth])
                    self._begin(Kind.MAKE_DIRECTORY, upto)
                    node = Directory()
                    self._change(upto, (directory, name, node))
                elif isinstance(node, Content):
                    _refuse(FileExistsError, errno.EEXIST, path)
                directory = node

    def rename(self, old: str, new: str) -> None:
        with self._turn:
            self._check_power()
            old_directory, old_name = self._place(old)
            new_directory, new_name = self._place(new)
            node, replaced = old_directory.names.get(old_name), new_directory.names.get(new_name)
            if node is None:
                _refuse(FileNotFoundError, errno.ENOENT, old)
            if node is replaced:
                return
            if isinstance(replaced, Directory):
                if isinstance(node, Content):
                    _refuse(IsADirectoryError, errno.EISDIR, new)
                if replaced.names:
                    _refuse(OSError, errno.ENOTEMPTY, new)
            elif isinstance(node, Directory):
                if replaced is not None:
                    _refuse(NotADirectoryError, errno.ENOTDIR, new)
                if (new + "/").startswith(old + "/"):
                    _refuse(OSError, errno.EINVAL, new)
            self._begin(Kind.RENAME, old, new_path=new)
            self._give_back(replaced)
            self._change(new, (old_directory, old_name, None), (new_directory, new_name, node))

    def remove(self, path: str) -> None:
        with self._turn:
            self._check_power()
            directory, name = self._place(path)
            node = directory.names.get(name)
            if node is None:
                _refuse(FileNotFoundError, errno.ENOENT, path)
            if isinstance(node, Directory):
                _refuse(IsADirectoryError, errno.EISDIR, path)
            self._begin(Kind.REMOVE, path)
            self._give_back(node)
            self._change(path, (directory, name, None))

    def remove_directory(self, path: str) -> None:
        with self._turn:
            self._check_power()
            directory, name = self._place(path)
            node = directory.names.get(name)
            if node is None:
                _refuse(FileNotFoundError, errno.ENOENT, path)
            if isinstance(node, Content):
                _refuse(NotADirectoryError, errno.ENOTDIR, path)
            if node.names:
                _refuse(OSError, errno.ENOTEMPTY, path)
            self._begin(Kind.REMOVE_DIRECTORY, path)
            self._change(path, (directory, name, None))

    def sync_directory(self, path: str) -> None:
        with self._turn:
            self._check_power()
            directory = self._find(path)
            if directory is None:
                _refuse(FileNotFoundError, errno.ENOENT, path)
            if isinstance(directory, Content):
                _refuse(NotADirectoryError, errno.ENOTDIR, path)
            number = self._begin(Kind.SYNC_DIRECTORY, path)
            if self._fails_sync(number):
                raise SyncFailed(errno.EIO, f"sync of directory {path!r} failed")
            durable = set()
            for run in dependent(self._state.pending):
                for change in made_durable(run, directory):
                    durable.add(change.number)
                    for touched, name, node in change.effects:
                        _put(touched.durable, name, node)
            self._state.pending = [change for change in self._state.pending if change.number not in durable]

    def _fails_sync(self, number: int) -> bool:
        if self.fail_sync_at is None or number < self.fail_sync_at:
            return False
        self.fail_sync_at = None
        return True

    def free_space(self) -> int:
        self._check_power()
        return ENDLESS if self.free_bytes is None else self.free_bytes

    def lock(self) -> None:
        with self._turn:
            self._check_power()
            if self._state.locked_by not in (None, self):
                raise BlockingIOError(errno.EAGAIN, "the data directory is in use by another process")
            self._state.locked_by = self

    # What the next start finds.

    def after_power_loss(self, fate: Fate) -> "SimulatedDisk":
        with self._turn:
            decisions = fate.decide()
            overlay: dict[int, dict[str, Node]] = {}
            for run in dependent(self._state.pending):
                kept = decisions.names_kept(tuple(change.number for change in run))
                for change in run[:kept]:
                    for touched, name, node in change.effects:
                        names = overlay.setdefault(id(touched), dict(touched.durable))
                        _put(names, name, node)

            def survivor(directory: Directory) -> Directory:
                found = Directory()
                for name, node in overlay.get(id(directory), directory.durable).items():
                    found.names[name] = (
                        node.after_power_loss(decisions) if isinstance(node, Content) else survivor(node)
                    )
                found.durable = found.names.copy()
                return found

            after = self._successor()
            after._state.root = survivor(self._state.root)
            return after

    def after_kill(self) -> "SimulatedDisk":
        with self._turn:
            copies: dict[int, Node] = {}

            def copy(node: Node) -> Node:
                made = copies.get(id(node))
                if made is None:
                    if isinstance(node, Content):
                        made = copies[id(node)] = node.copy()
                    else:
                        made = copies[id(node)] = Directory()
                        made.names = {name: copy(child) for name, child in node.names.items()}
                        made.durable = {name: copy(child) for name, child in node.durable.items()}
                return made

            def copy_directory(directory: Directory) -> Directory:
                made = copy(directory)
                assert isinstance(made, Directory)
                return made

            after = self._successor()
            after._state.root = copy_directory(self._state.root)
            after._state.pending = [
                NameChange(
                    change.number,
                    change.path,
                    tuple(
                        (copy_directory(touched), name, None if node is None else copy(node))
                        for touched, name, node in change.effects
                    ),
                )
                for change in self._state.pending
            ]
            return after

    def after_failed_sync(self, operation: Operation) -> "SimulatedDisk":
        """What is left when `operation`, a sync that is about to be carried out, fails, and the process stops."""
        after = self.after_kill()
        for _, content in after._contents():
            if content.number == operation.file:
                content.fail_sync()
        return after

    def digest(self) -> bytes:
        """Equal for disks that show the same names and the same bytes.  What is unsynced of them plays no part."""
        digest = sha1(usedforsecurity=False)

        def add(directory: Directory, above: str) -> None:
            for name, node in sorted(directory.names.items(), key=lambda item: item[0]):
                if isinstance(node, Content):
                    digest.update(f"{above}{name}\0{node.size}\0".encode() + node.digest())
                else:
                    digest.update(f"{above}{name}/\0".encode())
                    add(node, f"{above}{name}/")

        with self._turn:
            add(self._state.root, "")
        return digest.digest()

    def unsynced(self) -> "Sequence[Unsynced]":
        """All that a power loss may undo, each of which `Alone` takes."""
        return [*self.unsynced_pages(), *self.unsynced_sizes(), *self.unsynced_names()]

    def unsynced_pages(self) -> "Sequence[UnsyncedPage]":
        with self._turn:
            return [
                UnsyncedPage(path, page, content.number)
                for path, content in self._contents()
                for page in content.unsynced_pages()
            ]

    def unsynced_sizes(self) -> "Sequence[UnsyncedSize]":
        with self._turn:
            return [UnsyncedSize(path, file.number) for path, file in self._contents() if file.size_is_unsynced()]

    def unsynced_names(self) -> "Sequence[UnsyncedName]":
        with self._turn:
            return [UnsyncedName(change.path, change.number) for change in self._state.pending]

    def tears(self, page: UnsyncedPage) -> "Sequence[int]":
        """The `Alone(page, …)` masks with different outcomes: lost, and each head or tail that alone is new.

        Empty when the page's loss cannot be seen, because it was written with what it had.
        """
        with self._turn:
            content = next(content for _, content in self._contents() if content.number == page.file)
            changed = content.changed_sectors(page.page)
        outcomes: dict[int, int] = {}
        for mask in (0, *map(torn_head, range(1, 8)), *map(torn_tail, range(1, 8))):
            if changed & ~mask & ALL_SECTORS:
                outcomes.setdefault(mask & changed, mask)
        return list(outcomes.values())

    # What a test does to the disk, or on it; none of it is an operation.

    def beside(self) -> "SimulatedDisk":
        """The same disk as another process sees it, with its own count of operations."""
        other = SimulatedDisk()
        other._state, other._turn = self._state, self._turn
        return other

    def flip(self, path: str, position: int, mask: int = 1) -> None:
        """Rot: bits of one byte turn over, on the disk and in the cache."""
        with self._turn:
            content = self._find(path)
            if not isinstance(content, Content):
                _refuse(FileNotFoundError, errno.ENOENT, path)
            content.flip(position, mask)

    def evict(self) -> None:
        """The kernel drops every clean page: what a failed sync left in the cache is no longer seen."""
        with self._turn:
            for _, content in self._contents():
                content.evict()

    def file_paths(self) -> "Sequence[str]":
        with self._turn:
            return [*_paths(self._state.root, "")]

    # Inside.

    def _successor(self) -> "SimulatedDisk":
        after = SimulatedDisk()
        after._state.contents_made = self._state.contents_made
        after._state.changes_made = self._state.changes_made
        after.free_bytes, after.full_writes_part = self.free_bytes, self.full_writes_part
        after.reads_cached = self.reads_cached
        return after

    def _contents(self) -> "Sequence[tuple[str, Content]]":
        """Every content that a start could find, once, under a path that it has or may have."""
        found: dict[int, tuple[str, Content]] = {}
        visited: set[int] = set()

        def visit(directory: Directory, above: str) -> None:
            visited.add(id(directory))
            for names in (directory.names, directory.durable):
                for name, node in sorted(names.items(), key=lambda item: item[0]):
                    if isinstance(node, Content):
                        found.setdefault(node.number, (above + name, node))
                    elif id(node) not in visited:
                        visit(node, f"{above}{name}/")

        visit(self._state.root, "")
        for change in self._state.pending:  # what has a name neither now nor on the disk, but had one in between
            for directory, _, node in change.effects:
                if isinstance(node, Content):
                    found.setdefault(node.number, (change.path, node))
                if id(directory) not in visited:
                    visit(directory, change.path.rpartition("/")[0] + "/")
        return list(found.values())

    def _check_power(self) -> None:
        if self.power_lost:
            raise PowerLost

    def _begin(self, kind: Kind, path: str, position: int = 0, size: int = 0, new_path: str = "", file: int = 0) -> int:
        """Count an operation that can be carried out, or lose power before it."""
        operation = Operation(self.operations + 1, kind, path, position, size, new_path, file)
        if self.before_operation is not None:
            self.before_operation(operation)
        if operation.number == self.cut_before:
            self.power_lost = True
            raise PowerLost(f"before {operation}")
        self.operations = operation.number
        self.log.append(operation)
        return operation.number

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._state.root
        for name in path_parts(path):
            if not isinstance(node, Directory):
                return None
            node = node.names.get(name)
        return node

    def _place(self, path: str) -> tuple[Directory, str]:
        """The directory that a path's last name is in, and the name."""
        parts = file_parts(path)
        directory = self._find("/".join(parts[:-1]))
        if directory is None:
            _refuse(FileNotFoundError, errno.ENOENT, path)
        if isinstance(directory, Content):
            _refuse(NotADirectoryError, errno.ENOTDIR, path)
        return directory, parts[-1]

    def _change(self, path: str, *effects: tuple[Directory, str, Node | None]) -> None:
        for directory, name, node in effects:
            _put(directory.names, name, node)
        self._state.changes_made += 1
        self._state.pending.append(NameChange(self._state.changes_made, path, effects))

    def _take(self, pages: int) -> int:
        """How many of `pages` there is room for; they are taken."""
        if self.free_bytes is None or pages <= 0:
            return pages
        taken = min(pages, self.free_bytes // PAGE)
        if taken < pages and not self.full_writes_part:
            return 0
        self.free_bytes -= taken * PAGE
        return taken

    def _give_back(self, node: Node | None) -> None:
        if self.free_bytes is not None and isinstance(node, Content):
            self.free_bytes += _pages(node.size) * PAGE


class SimulatedFile:
    __slots__ = ("_closed", "_content", "_disk", "_path")

    def __init__(self, disk: SimulatedDisk, content: Content, path: str) -> None:
        self._disk = disk
        self._content = content
        self._path = path
        self._closed = False

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        disk, content = self._disk, self._content
        with disk._turn:
            self._check(position)
            written = b"".join(parts)
            disk._begin(Kind.WRITE, self._path, position, len(written), file=content.number)
            end = position + len(written)
            wanted = _pages(end) - _pages(content.size) if written else 0
            taken = disk._take(wanted)
            if taken < wanted:
                room = (_pages(content.size) + taken) * PAGE
                if disk.full_writes_part and position < room:
                    content.write(position, (written[: room - position],))
                elif disk.free_bytes is not None:
                    disk.free_bytes += taken * PAGE
                raise DiskFull(errno.ENOSPC, f"no room for {self._path!r} [{position}, {end})")
            content.write(position, (written,))

    def write_around(self, position: int, parts: Sequence[Buffer]) -> None:
        self.write(position, parts)

    def write_durably(self, position: int, parts: Sequence[Buffer]) -> None:
        self.write(position, parts)
        self.sync()

    def read(self, position: int, size: int) -> bytes:
        with self._disk._turn:
            self._check(position, size)
            return self._content.read(position, size)

    def read_cached(self, position: int, size: int) -> bytes | None:
        data = self.read(position, size)
        return data if self._disk.reads_cached else None

    def size(self) -> int:
        with self._disk._turn:
            self._check()
            return self._content.size

    def truncate(self, size: int) -> None:
        disk, content = self._disk, self._content
        with disk._turn:
            self._check(size)
            disk._begin(Kind.TRUNCATE, self._path, 0, size, file=content.number)
            wanted = _pages(size) - _pages(content.size)
            if wanted < 0 and disk.free_bytes is not None:
                disk.free_bytes -= wanted * PAGE
            taken = disk._take(wanted)
            if taken < wanted:
                if disk.free_bytes is not None and taken > 0:
                    disk.free_bytes += taken * PAGE
                raise DiskFull(errno.ENOSPC, f"no room for {self._path!r} of {size} bytes")
            content.truncate(size)

    def sync(self) -> None:
        disk = self._disk
        with disk._turn:
            self._check()
            number = disk._begin(Kind.SYNC, self._path, file=self._content.number)
            if disk._fails_sync(number):
                self._content.fail_sync()
                raise SyncFailed(errno.EIO, f"sync of {self._path!r} failed")
            self._content.sync()

    def close(self) -> None:
        self._closed = True

    def _check(self, *numbers: int) -> None:
        self._disk._check_power()
        if self._closed:
            raise ValueError(f"{self._path!r} is closed")
        if numbers and min(numbers) < 0:
            raise ValueError(f"{self._path!r}: a position or size is below zero")


def _paths(directory: Directory, above: str) -> Iterator[str]:
    for name, node in sorted(directory.names.items(), key=lambda item: item[0]):
        if isinstance(node, Content):
            yield above + name
        else:
            yield from _paths(node, f"{above}{name}/")


def _put(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _pages(size: int) -> int:
    return -(-size // PAGE)


def _refuse(error: type[OSError], number: int, path: str) -> NoReturn:
    raise error(number, errno.errorcode[number], path)

"""The simulated disk: the Disk port in memory, which may lose or tear any unsynced data, as a real disk may.

A test runs code on a `SimulatedDisk` and stops at any of its operations.  With `cut_before = n`, every call from
operation n on raises `PowerLost`.  `before_operation` observes operations without stopping the code.  The test then
requests the disk that the next start finds:

    disk.after_power_loss(fate)    the durable state, and the unsynced data that `fate` keeps (`crash_fate.py`)
    disk.after_kill()              the page cache survives, still unsynced

Both methods return within microseconds: they leave this disk unchanged, and share its bytes until one of the disks is
written.
Operations are: write, truncate, sync, and each creation, rename, removal or sync of a name.  Reads are not counted.

A failed sync (`fail_sync_at`) leaves pages clean, visible and not durable.  A failed directory sync changes nothing,
because file systems record names in their own journal.  Space is counted in whole pages of each file, and is freed
when the name is removed.  Not modelled: read errors, latency, hard links and misplaced writes.
"""

import errno
from collections.abc import Sequence

from tidemill.simulation.machine.crash_fate import (
    ALL_SECTORS,
    Fate,
    Unsynced,
    UnsyncedName,
    UnsyncedPage,
    UnsyncedSize,
    torn_head,
    torn_tail,
)
from tidemill.simulation.machine.disk_content import Content
from tidemill.simulation.machine.disk_controls import ENDLESS, DiskControls, pages_of
from tidemill.simulation.machine.disk_file import SimulatedFile
from tidemill.simulation.machine.disk_names import Directory, Node
from tidemill.simulation.machine.disk_operation import Kind, Operation
from tidemill.simulation.machine.disk_tree import DiskTree, refuse
from tidemill.storage.disk import SyncFailed
from tidemill.storage.disk_path import path_parts


class SimulatedDisk(DiskControls):
    def __init__(self) -> None:
        super().__init__()
        self.opened = 0  # the number of handles that have been opened
        self._tree = DiskTree()

    # Methods of the Disk port.

    def open(self, path: str, *, create: bool = False) -> "SimulatedFile":
        with self.mutex:
            self.check_power()
            directory, name = self._tree.parent(path)
            node = directory.names.get(name)
            if isinstance(node, Directory):
                refuse(IsADirectoryError, errno.EISDIR, path)
            if node is None:
                if not create:
                    refuse(FileNotFoundError, errno.ENOENT, path)
                self.begin(Kind.CREATE, path)
                node = self._tree.new_content()
                self._tree.change(path, (directory, name, node))
            self.opened += 1
            return SimulatedFile(self, node, path)

    def exists(self, path: str) -> bool:
        with self.mutex:
            self.check_power()
            return self._tree.find(path) is not None

    def list(self, path: str) -> Sequence[str]:
        with self.mutex:
            self.check_power()
            node = self._tree.find(path)
            if isinstance(node, Content):
                refuse(NotADirectoryError, errno.ENOTDIR, path)
            return sorted(node.names) if node is not None else ()

    def make_directory(self, path: str) -> None:
        with self.mutex:
            self.check_power()
            directory, parts = self._tree.root, path_parts(path)
            for depth, name in enumerate(parts, 1):
                node = directory.names.get(name)
                if node is None:
                    upto = "/".join(parts[:depth])
                    self.begin(Kind.MAKE_DIRECTORY, upto)
                    node = Directory()
                    self._tree.change(upto, (directory, name, node))
                elif isinstance(node, Content):
                    refuse(FileExistsError, errno.EEXIST, path)
                directory = node

    def rename(self, old: str, new: str) -> None:
        with self.mutex:
            self.check_power()
            old_directory, old_name = self._tree.parent(old)
            new_directory, new_name = self._tree.parent(new)
            node, replaced = old_directory.names.get(old_name), new_directory.names.get(new_name)
            if node is None:
                refuse(FileNotFoundError, errno.ENOENT, old)
            if node is replaced:
                return
            if isinstance(replaced, Directory):
                if isinstance(node, Content):
                    refuse(IsADirectoryError, errno.EISDIR, new)
                if replaced.names:
                    refuse(OSError, errno.ENOTEMPTY, new)
            elif isinstance(node, Directory):
                if replaced is not None:
                    refuse(NotADirectoryError, errno.ENOTDIR, new)
                if (new + "/").startswith(old + "/"):
                    refuse(OSError, errno.EINVAL, new)
            self.begin(Kind.RENAME, old, new_path=new)
            self._give_back(replaced)
            self._tree.change(new, (old_directory, old_name, None), (new_directory, new_name, node))

    def remove(self, path: str) -> None:
        with self.mutex:
            self.check_power()
            directory, name = self._tree.parent(path)
            node = directory.names.get(name)
            if node is None:
                refuse(FileNotFoundError, errno.ENOENT, path)
            if isinstance(node, Directory):
                refuse(IsADirectoryError, errno.EISDIR, path)
            self.begin(Kind.REMOVE, path)
            self._give_back(node)
            self._tree.change(path, (directory, name, None))

    def remove_directory(self, path: str) -> None:
        with self.mutex:
            self.check_power()
            directory, name = self._tree.parent(path)
            node = directory.names.get(name)
            if node is None:
                refuse(FileNotFoundError, errno.ENOENT, path)
            if isinstance(node, Content):
                refuse(NotADirectoryError, errno.ENOTDIR, path)
            if node.names:
                refuse(OSError, errno.ENOTEMPTY, path)
            self.begin(Kind.REMOVE_DIRECTORY, path)
            self._tree.change(path, (directory, name, None))

    def sync_directory(self, path: str) -> None:
        with self.mutex:
            self.check_power()
            directory = self._tree.find(path)
            if directory is None:
                refuse(FileNotFoundError, errno.ENOENT, path)
            if isinstance(directory, Content):
                refuse(NotADirectoryError, errno.ENOTDIR, path)
            number = self.begin(Kind.SYNC_DIRECTORY, path)
            if self.fails_sync(number):
                raise SyncFailed(errno.EIO, f"sync of directory {path!r} failed")
            self._tree.sync_directory(directory)

    @property
    def root(self) -> str:
        return "/simulated"

    def total_space(self) -> int:
        self.check_power()
        return ENDLESS

    def free_space(self) -> int:
        self.check_power()
        return ENDLESS if self.free_bytes is None else self.free_bytes

    def lock(self) -> None:
        with self.mutex:
            self.check_power()
            if self._tree.locked_by not in (None, self):
                raise BlockingIOError(errno.EAGAIN, "the data directory is in use by another process")
            self._tree.locked_by = self

    # Methods that return the disk as the next start finds it.

    def after_power_loss(self, fate: Fate) -> "SimulatedDisk":
        with self.mutex:
            return self._successor(self._tree.after_power_loss(fate))

    def after_kill(self) -> "SimulatedDisk":
        with self.mutex:
            return self._successor(self._tree.after_kill())

    def _successor(self, tree: DiskTree) -> "SimulatedDisk":
        after = SimulatedDisk()
        after._tree = tree
        after.free_bytes, after.full_writes_part = self.free_bytes, self.full_writes_part
        after.reads_cached = self.reads_cached
        return after

    def after_failed_sync(self, operation: Operation) -> "SimulatedDisk":
        """Return the disk as it would be if `operation`, a sync about to be executed, failed and the process exited."""
        after = self.after_kill()
        for _, content in after._tree.contents():
            if content.number == operation.file:
                content.fail_sync()
        return after

    def digest(self) -> bytes:
        """Return a digest of the visible names and bytes, synced or not."""
        with self.mutex:
            return self._tree.digest()

    def unsynced(self) -> "Sequence[Unsynced]":
        """Return everything that a power loss may undo.  Each item can be passed to `Alone`."""
        return [*self.unsynced_pages(), *self.unsynced_sizes(), *self.unsynced_names()]

    def unsynced_pages(self) -> "Sequence[UnsyncedPage]":
        with self.mutex:
            return [
                UnsyncedPage(path, page, content.number)
                for path, content in self._tree.contents()
                for page in content.unsynced_pages()
            ]

    def unsynced_sizes(self) -> "Sequence[UnsyncedSize]":
        with self.mutex:
            return [UnsyncedSize(path, file.number) for path, file in self._tree.contents() if file.size_is_unsynced()]

    def unsynced_names(self) -> "Sequence[UnsyncedName]":
        with self.mutex:
            return [UnsyncedName(change.path, change.number) for change in self._tree.pending]

    def tears(self, page: UnsyncedPage) -> "Sequence[int]":
        """
        Return masks for `Alone(page, mask)` with different outcomes: the page is lost, or only its head or its tail is
        written.

        The result is empty if losing the page changes nothing, because the write repeated the durable bytes.
        """
        with self.mutex:
            content = next(content for _, content in self._tree.contents() if content.number == page.file)
            changed = content.changed_sectors(page.page)
        outcomes: dict[int, int] = {}
        for mask in (0, *map(torn_head, range(1, 8)), *map(torn_tail, range(1, 8))):
            if changed & ~mask & ALL_SECTORS:
                outcomes.setdefault(mask & changed, mask)
        return list(outcomes.values())

    # Controls for tests, which do not count as operations.

    def beside(self) -> "SimulatedDisk":
        """Return the same disk for use by another process, with its own count of operations."""
        other = SimulatedDisk()
        other._tree, other.mutex = self._tree, self.mutex
        return other

    def flip(self, path: str, position: int, mask: int = 1) -> None:
        """Flip bits of one byte, on the disk and in the page cache."""
        with self.mutex:
            content = self._tree.find(path)
            if not isinstance(content, Content):
                refuse(FileNotFoundError, errno.ENOENT, path)
            content.flip(position, mask)

    def evict(self) -> None:
        """Drop every clean page from the cache, as the kernel may.  This hides data whose sync has failed."""
        with self.mutex:
            for _, content in self._tree.contents():
                content.evict()

    def file_paths(self) -> "Sequence[str]":
        with self.mutex:
            return self._tree.file_paths()

    def _give_back(self, node: Node | None) -> None:
        if isinstance(node, Content):
            self.free_pages(pages_of(node.size))

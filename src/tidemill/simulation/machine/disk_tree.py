"""The directory tree of a simulated disk, as programs see it, and as they find it after a crash."""

import errno
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha1
from typing import Final, NoReturn

from tidemill.simulation.machine.crash_fate import Decisions, Fate
from tidemill.simulation.machine.disk_content import Content
from tidemill.simulation.machine.disk_names import Directory, NameChange, Node, dependent, made_durable
from tidemill.storage.disk_path import file_parts, path_parts

# A simulation names the same few files again and again.
_path_parts: Final = lru_cache(maxsize=1 << 10)(path_parts)
_file_parts: Final = lru_cache(maxsize=1 << 10)(file_parts)


class DiskTree:
    """The names and contents of one machine's disk, which all of its processes share, and the holder of the lock."""

    __slots__ = ("changes_made", "contents_made", "locked_by", "pending", "root")

    def __init__(self) -> None:
        self.root = Directory()
        self.pending: list[NameChange] = []  # changes that are not durable yet, oldest first
        self.contents_made = 0
        self.changes_made = 0
        self.locked_by: object = None

    # Looking up and changing names.

    def find(self, path: str) -> Node | None:
        return self._find(_path_parts(path))

    def _find(self, parts: Sequence[str]) -> Node | None:
        node: Node | None = self.root
        for name in parts:
            if not isinstance(node, Directory):
                return None
            node = node.names.get(name)
        return node

    def parent(self, path: str) -> tuple[Directory, str]:
        """Return the directory that holds the last name of `path`, and that name."""
        parts = _file_parts(path)
        directory = self._find(parts[:-1])
        if directory is None:
            refuse(FileNotFoundError, errno.ENOENT, path)
        if isinstance(directory, Content):
            refuse(NotADirectoryError, errno.ENOTDIR, path)
        return directory, parts[-1]

    def new_content(self) -> Content:
        self.contents_made += 1
        return Content(self.contents_made)

    def change(self, path: str, *effects: tuple[Directory, str, Node | None]) -> None:
        for directory, name, node in effects:
            _put(directory.names, name, node)
        self.changes_made += 1
        self.pending.append(NameChange(self.changes_made, path, effects))

    def sync_directory(self, directory: Directory) -> None:
        durable = set()
        for run in dependent(self.pending):
            for change in made_durable(run, directory):
                durable.add(change.number)
                for touched, name, node in change.effects:
                    _put(touched.durable, name, node)
        self.pending = [change for change in self.pending if change.number not in durable]

    # Methods that return the tree as it is after a crash.

    def after_power_loss(self, fate: Fate) -> "DiskTree":
        decisions = fate.decide()
        overlay: dict[int, dict[str, Node]] = {}
        for run in dependent(self.pending):
            kept = decisions.names_kept(tuple(change.number for change in run))
            for change in run[:kept]:
                for touched, name, node in change.effects:
                    names = overlay.setdefault(id(touched), dict(touched.durable))
                    _put(names, name, node)

        after = self._successor()
        after.root = _survivor(self.root, overlay, decisions)
        return after

    def after_kill(self) -> "DiskTree":
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
        after.root = copy_directory(self.root)
        after.pending = [
            NameChange(
                change.number,
                change.path,
                tuple(
                    (copy_directory(touched), name, None if node is None else copy(node))
                    for touched, name, node in change.effects
                ),
            )
            for change in self.pending
        ]
        return after

    def _successor(self) -> "DiskTree":
        after = DiskTree()
        after.contents_made, after.changes_made = self.contents_made, self.changes_made
        return after

    # Methods that inspect the tree.

    def contents(self) -> list[tuple[str, Content]]:
        """Return each content that exists now or may exist after a crash, only once, with one of its possible paths."""
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

        visit(self.root, "")
        # A content without a name in the durable or the visible tree may have one in a state between the two.
        for change in self.pending:
            for directory, _, node in change.effects:
                if isinstance(node, Content):
                    found.setdefault(node.number, (change.path, node))
                if id(directory) not in visited:
                    visit(directory, change.path.rpartition("/")[0] + "/")
        return list(found.values())

    def file_paths(self) -> list[str]:
        return [*_paths(self.root, "")]

    def digest(self) -> bytes:
        """Return a digest of the visible names and bytes, synced or not."""
        parts: list[bytes] = []
        _add_to_digest(parts, self.root, "")
        return sha1(b"".join(parts), usedforsecurity=False).digest()


def refuse(error: type[OSError], number: int, path: str) -> NoReturn:
    raise error(number, errno.errorcode[number], path)


# These are no functions within the methods, because one that names itself is garbage in a cycle after each call.


def _survivor(directory: Directory, overlay: Mapping[int, dict[str, Node]], decisions: Decisions) -> Directory:
    """Return a directory after a power loss that leaves it with its durable names, or those in `overlay`, by id."""
    found = Directory()
    for name, node in overlay.get(id(directory), directory.durable).items():
        found.names[name] = (
            node.after_power_loss(decisions) if isinstance(node, Content) else _survivor(node, overlay, decisions)
        )
    found.durable = found.names.copy()
    return found


def _add_to_digest(parts: list[bytes], directory: Directory, above: str) -> None:
    for name in sorted(directory.names):
        node = directory.names[name]
        if isinstance(node, Content):
            parts += (f"{above}{name}\0{node.size}\0".encode(), node.digest())
        else:
            below = f"{above}{name}/"
            parts.append(f"{below}\0".encode())
            _add_to_digest(parts, node, below)


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

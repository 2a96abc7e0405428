"""The contract of the Disk port.  The test module of each implementation subclasses `DiskContract` and defines the
fixtures.
"""

from random import Random

import pytest

from tidemill.storage.disk import Disk, remove_if_empty, remove_if_there

MIB = 1 << 20


class DiskContract:
    """The tests of the contract.  A subclass defines two fixtures: `disk`, which is empty, and `beside`, the same
    directory as opened by another process.
    """

    def test_a_write_joins_its_parts(self, disk: Disk) -> None:
        """The parts of a write are stored one after another, whatever types of buffers they are."""
        file = disk.open("a", create=True)

        file.write(0, [b"one", bytearray(b"two"), memoryview(b"three"), b""])

        assert (file.size(), file.read(0, 100)) == (11, b"onetwothree")

    def test_a_write_overwrites_in_place(self, disk: Disk) -> None:
        """A write overwrites bytes in place and does not change the bytes next to them."""
        file = disk.open("a", create=True)
        file.write(0, [b"x" * 10_000])

        file.write(4095, [b"ab"])

        assert file.read(0, 10_000) == b"x" * 4095 + b"ab" + b"x" * 5903

    def test_a_write_beyond_the_end_leaves_a_gap_of_zeros(self, disk: Disk) -> None:
        """A write beyond the end leaves a gap that reads as zeros."""
        file = disk.open("a", create=True)

        file.write(5000, [b"end"])

        assert file.read(0, 6000) == bytes(5000) + b"end"

    def test_a_write_may_have_thousands_of_parts(self, disk: Disk) -> None:
        """A write may have more parts than one system call accepts."""
        file = disk.open("a", create=True)
        parts = [b"%04d" % number for number in range(5000)]

        file.write(3, parts)

        assert file.read(3, 1 << 20) == b"".join(parts)

    @pytest.mark.parametrize("pages", [1, 31, 32, 255, 256, 257, 700])
    @pytest.mark.parametrize("part_bytes", [171, 4096, 3 * MIB])
    def test_durably_written_pages_are_visible_to_every_reader(self, disk: Disk, pages: int, part_bytes: int) -> None:
        """Every reader sees pages that were written durably, with or without the page cache.  In this test they
        overwrite the middle of a file that has been renamed.
        """
        file = disk.open("a", create=True)
        file.write(0, [b"x" * (pages + 2) * 4096])
        disk.rename("a", "b")
        content = bytes(number * 7 & 0xFF for number in range(pages * 4096))

        file.write_durably(4096, [content[at : at + part_bytes] for at in range(0, len(content), part_bytes)])

        assert b"x" * 4096 + content + b"x" * 4096 == disk.open("b").read(0, (pages + 2) * 4096)

    @pytest.mark.parametrize("seed", range(8))
    def test_writes_around_the_cache_are_visible_to_every_reader(self, disk: Disk, seed: int) -> None:
        """Readers see every write while a segment grows, whatever the sizes of the parts, and whether a write uses or
        bypasses the page cache.  Reads and occasional truncations come between the writes.
        """
        random = Random(seed)
        file = disk.open("a", create=True)
        expected = bytearray()
        for _ in range(60):
            if random.random() < 0.1:
                del expected[random.randrange(len(expected) + 1) :]
                file.truncate(len(expected))
            sizes = [random.choice((1, 70, 4096, 60_000, 300_000)) for _ in range(random.randrange(1, 8))]
            parts = [random.randbytes(size) for size in sizes]
            write = file.write if random.random() < 0.3 else file.write_around
            write(len(expected), parts)
            expected += b"".join(parts)
            at = random.randrange(len(expected))
            assert expected[at : at + 500_000] == file.read(at, 500_000)
        file.sync()

        assert expected == disk.open("a").read(0, len(expected) + 1)

    def test_an_empty_write_changes_nothing(self, disk: Disk) -> None:
        """An empty write changes nothing: not even one beyond the end of the file changes its size."""
        file = disk.open("a", create=True)

        file.write(100, [])
        file.write(100, [b"", b""])

        assert file.size() == 0

    def test_reads_are_short_only_at_the_end_of_the_file(self, disk: Disk) -> None:
        """A read returns `size` bytes, or fewer only at the end of the file."""
        file = disk.open("a", create=True)
        file.write(0, [b"abcdef"])

        reads = [file.read(*where) for where in ((0, 6), (4, 10), (6, 10), (600, 10), (2, 0))]

        assert reads == [b"abcdef", b"ef", b"", b"", b""]

    def test_a_cached_read_equals_a_read_or_is_none(self, disk: Disk) -> None:
        """A cached read returns the same bytes as a read, or None.  Both are short at the end of the file."""
        file = disk.open("a", create=True)
        file.write(0, [b"x" * 5000])

        reads = [(file.read_cached(*where), file.read(*where)) for where in ((0, 5000), (4000, 4000), (5000, 10))]

        assert all(cached is None or cached == read for cached, read in reads)

    def test_megabytes_can_be_read_and_written_in_one_call(self, disk: Disk) -> None:
        """A write and a read of many megabytes each succeed in one call."""
        file = disk.open("a", create=True)
        data = bytes(range(256)) * (8 * MIB // 256)

        file.write(17, [data[: 3 * MIB], data[3 * MIB :]])

        assert file.read(17, 8 * MIB) == data

    def test_a_truncate_cuts_and_grows_with_zeros(self, disk: Disk) -> None:
        """Truncated bytes do not reappear when the file grows again."""
        file = disk.open("a", create=True)
        file.write(0, [b"abcdef"])

        file.truncate(2)
        cut = file.read(0, 10)
        file.truncate(5)

        assert (cut, file.read(0, 10), file.size()) == (b"ab", b"ab\0\0\0", 5)

    def test_a_file_can_be_open_more_than_once(self, disk: Disk) -> None:
        """Each open file sees the writes of the others."""
        one, other = disk.open("a", create=True), disk.open("a", create=True)

        one.write(0, [b"seen"])

        assert other.read(0, 10) == b"seen"

    def test_syncs_succeed(self, disk: Disk) -> None:
        """Files, directories and the data directory can be synced repeatedly, even if nothing has changed."""
        disk.make_directory("d")
        file = disk.open("d/a", create=True)
        file.write(0, [b"x"])

        file.sync()
        file.sync()
        disk.sync_directory("d")
        disk.sync_directory("")

        assert file.read(0, 1) == b"x"

    def test_a_closed_file_refuses_everything_but_close(self, disk: Disk) -> None:
        """After `close`, which may be called again, any other use of a file is a bug and is refused."""
        file = disk.open("a", create=True)

        file.close()
        file.close()

        for use in (
            file.size,
            file.sync,
            lambda: file.read(0, 1),
            lambda: file.read_cached(0, 1),
            lambda: file.write(0, [b"x"]),
            lambda: file.truncate(0),
        ):
            with pytest.raises(ValueError, match="closed"):
                use()

    def test_open_creates_a_file_only_on_request(self, disk: Disk) -> None:
        """`open` creates a missing file only with `create`, and otherwise raises FileNotFoundError; an existing file is
        unchanged.
        """
        with pytest.raises(FileNotFoundError):
            disk.open("a")

        disk.open("a", create=True).write(0, [b"kept"])
        again = disk.open("a", create=True)

        assert again.read(0, 10) == b"kept"

    def test_open_does_not_create_directories(self, disk: Disk) -> None:
        """Opening a file in a missing directory fails."""
        with pytest.raises(FileNotFoundError):
            disk.open("d/a", create=True)

    def test_files_and_directories_are_not_interchangeable(self, disk: Disk) -> None:
        """Operations on files refuse directories, and operations on directories refuse files."""
        disk.make_directory("d")
        disk.open("a", create=True)

        with pytest.raises(IsADirectoryError):
            disk.open("d", create=True)
        with pytest.raises(IsADirectoryError):
            disk.remove("d")
        with pytest.raises(NotADirectoryError):
            disk.remove_directory("a")
        with pytest.raises(NotADirectoryError):
            disk.list("a")
        with pytest.raises(NotADirectoryError):
            disk.sync_directory("a")
        with pytest.raises(FileExistsError):
            disk.make_directory("a/b")
        with pytest.raises(FileExistsError):
            disk.make_directory("a")

    def test_list_returns_sorted_names(self, disk: Disk) -> None:
        """`list` returns the sorted names of files and directories, and no names for a missing directory."""
        disk.make_directory("d/inner")
        for path in ("d/b", "d/a", "d/B"):
            disk.open(path, create=True)

        assert list(disk.list("d")) == ["B", "a", "b", "inner"]
        assert list(disk.list("")) == ["d"]
        assert list(disk.list("none")) == []

    def test_make_directory_creates_parents_and_is_idempotent(self, disk: Disk) -> None:
        """`make_directory` creates missing parents, and an existing directory is not an error."""
        disk.make_directory("x/y/z")
        disk.make_directory("x/y/z")
        disk.make_directory("")

        assert [disk.exists(path) for path in ("", "x", "x/y", "x/y/z", "x/z")] == [True, True, True, True, False]

    def test_conditional_removal_tolerates_missing_names(self, disk: Disk) -> None:
        """The conditional removals succeed if the file is missing, or if the directory is missing or not empty."""
        disk.make_directory("x/y")
        disk.open("x/y/file", create=True).close()

        for _ in range(2):
            remove_if_empty(disk, "x/y")
            assert disk.exists("x/y/file")
        for _ in range(2):
            remove_if_there(disk, "x/y/file")
            remove_if_there(disk, "x/none/file")
        for _ in range(2):
            remove_if_empty(disk, "x/y")
            remove_if_empty(disk, "x/none/y")

        assert [] == [*disk.list("x")]

    def test_a_rename_replaces_the_target(self, disk: Disk) -> None:
        """A rename removes the old name and replaces the file at the new one; open files keep their content."""
        first, second = disk.open("a", create=True), disk.open("b", create=True)
        first.write(0, [b"first"])
        second.write(0, [b"second"])

        disk.rename("a", "b")

        assert (list(disk.list("")), disk.open("b").read(0, 10)) == (["b"], b"first")
        assert (first.read(0, 10), second.read(0, 10)) == (b"first", b"second")

    def test_a_rename_moves_between_directories(self, disk: Disk) -> None:
        """A rename moves files to other directories, and directories together with their content."""
        disk.make_directory("from/topic")
        disk.make_directory("to")
        disk.open("from/topic/a", create=True).write(0, [b"x"])

        disk.rename("from/topic", "to/topic")

        assert (disk.exists("from/topic"), disk.open("to/topic/a").read(0, 1)) == (False, b"x")

    def test_impossible_renames_are_refused(self, disk: Disk) -> None:
        """A rename fails if the source or the target directory is missing, if the target is a directory, or if a
        directory would replace a file or move into itself.
        """
        disk.make_directory("d/full")
        disk.open("a", create=True)

        for old, new, error in (
            ("none", "b", FileNotFoundError),
            ("a", "none/a", FileNotFoundError),
            ("a", "d", IsADirectoryError),
            ("d", "a", NotADirectoryError),
            ("d", "d/full/d", OSError),
        ):
            with pytest.raises(error):
                disk.rename(old, new)
        assert list(disk.list("")) == ["a", "d"]

    def test_a_removed_file_stays_readable_while_open(self, disk: Disk) -> None:
        """Open readers keep a removed file's content, and its name can be reused immediately."""
        file = disk.open("a", create=True)
        file.write(0, [b"old"])

        disk.remove("a")
        disk.open("a", create=True).write(0, [b"new"])

        assert (file.read(0, 10), disk.open("a").read(0, 10)) == (b"old", b"new")

    def test_removing_a_missing_name_fails(self, disk: Disk) -> None:
        """Removing a missing name raises FileNotFoundError, so that a wrong path is not mistaken for success."""
        for act in (disk.remove, disk.remove_directory, disk.sync_directory):
            with pytest.raises(FileNotFoundError):
                act("none")

    def test_only_an_empty_directory_is_removed(self, disk: Disk) -> None:
        """Removing a directory never removes files."""
        disk.make_directory("d")
        disk.open("d/a", create=True)

        with pytest.raises(OSError, match="d"):
            disk.remove_directory("d")
        disk.remove("d/a")
        disk.remove_directory("d")

        assert not disk.exists("d")

    @pytest.mark.parametrize(
        "path", ["/etc/passwd", "..", "a/../../b", ".", "./a", "a//b", "a/", "a\0b", "LOCK", "LOCK/a"]
    )
    def test_no_path_leads_out_of_the_data_directory(self, disk: Disk, path: str) -> None:
        """A path that leads out of the data directory is refused, and so is the path of the lock file."""
        for act in (
            lambda: disk.open(path, create=True),
            lambda: disk.exists(path),
            lambda: disk.list(path),
            lambda: disk.make_directory(path),
            lambda: disk.rename("a", path),
            lambda: disk.rename(path, "a"),
            lambda: disk.remove(path),
            lambda: disk.remove_directory(path),
            lambda: disk.sync_directory(path),
        ):
            with pytest.raises(ValueError, match="path"):
                act()

    def test_the_data_directory_cannot_be_opened_renamed_or_removed(self, disk: Disk) -> None:
        """The data directory itself can only be listed and synced."""
        for act in (
            lambda: disk.open("", create=True),
            lambda: disk.rename("", "a"),
            lambda: disk.rename("a", ""),
            lambda: disk.remove(""),
            lambda: disk.remove_directory(""),
        ):
            with pytest.raises(ValueError, match="data directory"):
                act()

    def test_the_space_of_the_file_system_is_known(self, disk: Disk) -> None:
        """The free space is positive on any machine that can run this test, and at most the total space."""
        assert disk.total_space() >= disk.free_space() > 0

    def test_the_path_of_the_data_directory_is_absolute(self, disk: Disk) -> None:
        """The path is absolute, so a report that contains it does not depend on the broker's working directory."""
        assert disk.root.startswith("/")

    def test_one_process_can_lock_the_data_directory(self, disk: Disk, beside: Disk) -> None:
        """
        Only one process at a time can lock the data directory.  It may do so repeatedly; others are refused, but can
        still read.
        """
        disk.open("a", create=True).write(0, [b"x"])

        disk.lock()
        disk.lock()

        with pytest.raises(BlockingIOError):
            beside.lock()
        assert beside.open("a").read(0, 1) == b"x"
        assert list(disk.list("")) == list(beside.list("")) == ["a"]

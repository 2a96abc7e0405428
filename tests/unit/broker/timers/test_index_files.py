"""What waits is found through files of the index, too: when many records wait, and after restarts."""

from collections import Counter
from collections.abc import Iterator
from errno import EACCES, EIO, ENOSPC
from typing import Any

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.timers.timer_topic import (
    TOPIC,
    arrivals,
    create,
    delay,
    due_at,
    led,
    named,
    resolve,
    send,
    timers,
    values,
)
from tidemill.broker.timers import index_files, restoring
from tidemill.broker.timers.index_files import IndexFiles
from tidemill.peer.timer_resolve import CANCEL, RESCHEDULE, Selection
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.simulation.machine.disk_file import SimulatedFile
from tidemill.storage.disk import DiskFull
from tidemill.storage.partition.partition_log import PartitionLog
from tidemill.timer.due_index import Sizes
from tidemill.timer.due_row import pack_rows, unpack_rows
from tidemill.timer.due_run import RunRead, UnwrittenRun, decode_run

HOUR_MS = 3_600_000
COUNT = 200


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> BrokerWorld:
    """Return a broker on which many records wait, whose rows were written to files."""
    monkeypatch.setattr(index_files, "FLUSH_BYTES", 1_000)
    world = BrokerWorld()
    create(world)
    due = world.clock.now_ms + HOUR_MS
    for start in range(0, COUNT, 10):
        numbers = range(start, start + 10)
        send(world, *[(b"%d" % at, named(f"t{at}", due_at(due + (at * 37) % COUNT))) for at in numbers])
        world.pass_time(250)
    return world


def files(world: BrokerWorld) -> list[str]:
    return [name for name in world.disk.list(arrivals(world).log.directory) if name.endswith(".due")]


def expected() -> list[bytes]:
    return [b"%d" % at for at in sorted(range(COUNT), key=lambda at: (at * 37 % COUNT, at))]


def pass_hours(world: BrokerWorld, hours: int = 2) -> None:
    for _ in range(hours * 4):
        world.pass_time(HOUR_MS // 4)
    for _ in range(40):
        world.pass_time(50)


def pass_ticks(world: BrokerWorld) -> None:
    for _ in range(8):
        world.pass_time(250)


def test_rows_leave_memory(world: BrokerWorld) -> None:
    assert files(world)
    assert timers(world).index.unsorted_bytes < 48 * COUNT


def test_records_come_through_files(world: BrokerWorld) -> None:
    """
    In order, each once; then the files are removed.
    """
    pass_hours(world)

    assert expected() == values(world)
    assert [] == files(world)


def test_a_restart_uses_the_files(world: BrokerWorld) -> None:
    """
    The ids of timers are in them, too.
    """
    world.pass_time(20_000)  # a checkpoint
    again = world.restarted()
    again.pass_time(500)
    kept = files(again)

    answer = resolve(again, operation=CANCEL, timer_ids=[b"t7", b"t8", b"t9"])
    pass_hours(again)

    assert kept
    assert 3 == answer.changed
    assert [it for it in expected() if it not in (b"7", b"8", b"9")] == values(again)


@pytest.mark.parametrize("damage", ["lost", "cut", "flipped"])
def test_damaged_files_cost_only_time(world: BrokerWorld, damage: str) -> None:
    world.pass_time(20_000)
    for name in files(world):
        path = f"{arrivals(world).log.directory}/{name}"
        if damage == "lost":
            world.disk.remove(path)
        elif damage == "cut":
            world.disk.open(path).truncate(60)
        else:
            world.disk.open(path).write(70, [b"\xff\xff\xff"])
    again = world.restarted()

    pass_hours(again)

    assert expected() == values(again)


def test_a_file_about_other_records_with_these_offsets_is_not_used(world: BrokerWorld) -> None:
    """
    Another leader has written the records that its rows name: their times say nothing of those that are there.
    """
    world.pass_time(20_000)
    epoch = world.partition(TOPIC).shard.replica.term  # type: ignore[attr-defined]
    for name in files(world):
        file = world.disk.open(f"{arrivals(world).log.directory}/{name}")
        run, rows, ids = decode_run(name, file.read(0, file.size()))
        assert epoch == run.epoch
        past = pack_rows(row._replace(due_ms=1) for row in unpack_rows(rows))
        stale = UnwrittenRun(name, run.first, run.end, [past], ids, over=run.over)
        file.write(0, [stale.encode(epoch + 1)])
    again = world.restarted()

    pass_ticks(again)
    early = values(again)
    pass_hours(again)

    assert ([], expected()) == (early, values(again))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Return how often each file was read for what is due next, or for a merge."""
    found: Counter[str] = Counter()
    read_file = IndexFiles._read

    def noted(files: IndexFiles, read: RunRead) -> bytes | None:
        found[read.name] += 1
        return read_file(files, read)

    monkeypatch.setattr(IndexFiles, "_read", noted)
    return found


def lead_again(world: BrokerWorld) -> None:
    """Let the leader begin a new window, which it fills from files."""
    timers(world).index.lead()
    world.broker.timers._due.wake(led(world))


def test_a_file_that_becomes_unreadable_is_replaced(world: BrokerWorld, reads: dict[str, int]) -> None:
    """
    The leader finds the damage when it reads what is due next, and reads the rows from the log.
    """
    damaged = files(world)
    for name in damaged:
        world.disk.open(f"{arrivals(world).log.directory}/{name}").write(70, [b"\xff\xff\xff"])
    lead_again(world)
    pass_ticks(world)

    assert {*damaged} == reads.keys()
    assert [] == timers(world).index.missing()

    pass_hours(world)

    assert expected() == values(world)


def test_rows_that_are_read_again_while_records_end_are_complete(world: BrokerWorld, reads: dict[str, int]) -> None:
    """
    Other records arrive and are cancelled meanwhile.
    """
    for name in files(world):
        world.disk.remove(f"{arrivals(world).log.directory}/{name}")
    lead_again(world)
    for number in range(20):
        send(world, (b"more", due_at(world.clock.now_ms + 2 * HOUR_MS)))
        resolve(world, operation=CANCEL, timer_ids=[b"t%d" % number])

    pass_hours(world, 4)

    assert reads
    assert [*(it for it in expected() if int(it) >= 20), *[b"more"] * 20] == values(world)


@pytest.mark.parametrize("merges", [False, True])
def test_a_failed_read_of_a_file_costs_only_time(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, merges: bool
) -> None:
    """
    The leader reads for its window, or a job for a merge.
    """
    failures = fail_reads(monkeypatch, 1)
    if merges:
        timers(world).index._sizes = Sizes(runs_max=1, merge_runs=2)
    else:
        lead_again(world)
    pass_ticks(world)
    pass_hours(world)

    assert [] == failures
    assert expected() == values(world)


def fail_reads(monkeypatch: pytest.MonkeyPatch, count: int) -> list[OSError]:
    """Let the next reads of files of the index fail, and return the errors that are still to come."""
    failures = [OSError(EIO, "Input/output error")] * count
    read_file = SimulatedFile.read

    def failing(file: SimulatedFile, position: int, size: int) -> bytes:
        if failures and file._path.endswith(index_files.ENDING):
            raise failures.pop()
        return read_file(file, position, size)

    monkeypatch.setattr(SimulatedFile, "read", failing)
    return failures


def test_a_restart_reads_the_log_instead_of_a_file_that_cannot_be_read(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.pass_time(20_000)
    failures = fail_reads(monkeypatch, 1)
    again = world.restarted()
    again.pass_time(500)

    assert [] == failures
    assert timers(again).is_restored

    pass_hours(again)

    assert expected() == values(again)


def test_a_restart_keeps_the_files_when_a_read_of_the_log_fails(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It tries again, and uses the files that it has read.
    """
    world.pass_time(20_000)
    damaged, *kept = files(world)
    world.disk.remove(f"{arrivals(world).log.directory}/{damaged}")
    failures = [LookupError("offset 0 is gone"), OSError(EIO, "Input/output error")]
    read_log = restoring.positioned_batches

    def failing(log: PartitionLog, offset: int, end_offset: int) -> Iterator[tuple[int | None, memoryview]]:
        if failures:
            raise failures.pop()
        return read_log(log, offset, end_offset)

    monkeypatch.setattr(restoring, "positioned_batches", failing)
    again = world.restarted()
    pass_ticks(again)

    assert [] == failures
    assert timers(again).is_restored
    assert kept and {*kept} <= {*files(again)}

    pass_hours(again)

    assert expected() == values(again)


def test_new_times_and_files(world: BrokerWorld) -> None:
    now = world.clock.now_ms
    resolve(world, operation=RESCHEDULE, arrivals=[0, 1, 2], due_ms=now + 5_000)
    world.pass_time(6_000)
    first = values(world)
    again = world.restarted()
    pass_hours(again)

    assert [b"0", b"1", b"2"] == first
    assert [*first, *(it for it in expected() if it not in first)] == values(again)


def test_a_full_disk_leaves_rows_in_memory(world: BrokerWorld) -> None:
    world.disk.free_bytes = 300 << 20
    world.pass_time(250)
    world.disk.free_bytes = None
    send(world, (b"more", delay("2h")))

    pass_hours(world, 3)

    assert [*expected(), b"more"] == values(world)


NO_ACCESS = PermissionError(EACCES, "Permission denied")
NO_ROOM = DiskFull(ENOSPC, "No space left on device")


def fail(monkeypatch: pytest.MonkeyPatch, owner: type, method: str, error: OSError) -> list[OSError]:
    """Let a method of the disk fail for files of the index, until the list of what it raises is empty."""
    errors, original = [error], getattr(owner, method)

    def failing(self: Any, *args: Any, **named: Any) -> Any:
        path = self._path if owner is SimulatedFile else args[0]
        is_changing = method != "open" or named.get("create")
        is_of_index = path.endswith((index_files.ENDING, ".arrivals"))
        if errors and is_changing and is_of_index:
            raise errors[0]
        return original(self, *args, **named)

    monkeypatch.setattr(owner, method, failing)
    return errors


def logged(world: BrokerWorld) -> list[str]:
    return [it for it in world.events if "timer index file failed" in it]


@pytest.mark.parametrize("error", [NO_ACCESS, NO_ROOM], ids=["permission", "full"])
@pytest.mark.parametrize(
    ("owner", "method"),
    [(SimulatedDisk, "make_directory"), (SimulatedDisk, "open"), (SimulatedFile, "write"), (SimulatedFile, "truncate")],
)
def test_a_file_that_cannot_be_written_costs_only_memory(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, error: OSError
) -> None:
    """
    What waits is released all the same, and the file is written when that is possible again.
    """
    errors = fail(monkeypatch, owner, method, error)
    before = files(world)
    later = [send(world, *[(b"later", delay("3h"))] * 30).base_offset for _ in range(2)]
    pass_hours(world)

    assert expected() == values(world)
    assert timers(world).index.unsorted_bytes >= 40 * 60

    errors.clear()
    world.pass_time(index_files.RETRY_MS)
    world.pass_time(250)
    after = files(world)
    pass_hours(world)

    assert after and not {*after} & {*before}
    assert [*expected(), *[b"later"] * 60] == values(world)
    assert later == [COUNT, COUNT + 30]


@pytest.mark.parametrize("method", ["open", "remove"])
def test_failures_are_logged_once_a_minute(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """
    With the path, the reason and what to do; and are tried every ten seconds.
    """
    fail(monkeypatch, SimulatedDisk, method, NO_ACCESS)
    if method == "open":
        send(world, *[(b"later", delay("3h"))] * 30)
    else:
        resolve(world, operation=CANCEL, selection=Selection())
    for _ in range(4 * 59):
        world.pass_time(250)
    (first,) = logged(world)
    for _ in range(4 * 10):
        world.pass_time(250)

    assert f"{arrivals(world).log.directory}/" in first
    assert "Permission denied" in first
    assert "data directory" in first and "room" not in first
    assert 2 == len(logged(world))
    assert "repeats_left_out=5" in logged(world)[1]


def test_a_full_disk_asks_for_room(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, SimulatedFile, "write", NO_ROOM)
    send(world, *[(b"later", delay("3h"))] * 30)
    world.pass_time(250)

    assert "make room on the disk" in logged(world)[0]


@pytest.mark.parametrize("method", ["open", "write"])
def test_files_that_cannot_be_merged_stay_apart(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    errors = fail(monkeypatch, SimulatedDisk if method == "open" else SimulatedFile, method, NO_ACCESS)
    before = files(world)
    timers(world).index._sizes = Sizes(runs_max=1, merge_runs=len(before))
    pass_ticks(world)

    assert before == [it for it in files(world) if it in before]
    assert 1 == len(logged(world))

    errors.clear()
    world.pass_time(index_files.RETRY_MS)
    pass_ticks(world)

    assert len(files(world)) < len(before)

    pass_hours(world)

    assert expected() == values(world)


def test_files_that_cannot_be_removed_are_removed_later(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Except for those that have become files of the index again.
    """
    errors = fail(monkeypatch, SimulatedDisk, "remove", NO_ACCESS)
    before = files(world)
    pass_hours(world)

    assert before == files(world)
    assert expected() == values(world)
    assert len(logged(world)) > 1

    errors.clear()
    world.pass_time(index_files.RETRY_MS)
    world.pass_time(250)

    assert [] == files(world)


def test_a_file_that_is_used_again_is_not_removed(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Its removal has failed, and a later run was given its name.
    """
    errors = fail(monkeypatch, SimulatedDisk, "remove", NO_ACCESS)
    used = files(world)
    stray = f"{arrivals(world).log.directory}/0-1-99.due"
    world.disk.open(stray, create=True)
    replica = world.broker.timers._replica(world.partition(TOPIC).shard, 0)  # type: ignore[arg-type]
    replica.files.remove([*used, "0-1-99.due"])
    world.stabilize()
    errors.clear()
    world.pass_time(index_files.RETRY_MS)
    world.pass_time(250)

    assert used == files(world)


def test_a_start_removes_the_files_of_what_does_not_wait_any_more(world: BrokerWorld) -> None:
    """
    The broker was killed before it removed them.  Nothing waits, so nothing reads them either.
    """
    directory = arrivals(world).log.directory
    left = {name: world.disk.open(f"{directory}/{name}").read(0, 1 << 20) for name in files(world)}
    pass_hours(world)
    world.pass_time(20_000)  # a checkpoint
    for name, data in left.items():
        world.disk.open(f"{directory}/{name}", create=True).write(0, [data])
    again = world.restarted()
    assert left.keys() == {*files(again)}
    assert 0 == timers(again).waiting.count

    again.pass_time(250)

    assert [] == files(again)


def test_a_start_keeps_the_files_that_it_needs(world: BrokerWorld) -> None:
    world.pass_time(20_000)
    stray = f"{arrivals(world).log.directory}/0-1-99.due"
    world.disk.open(stray, create=True)
    before = files(world)
    again = world.restarted()
    pass_ticks(again)

    assert [name for name in before if name not in stray] == files(again)


def test_an_install_does_not_use_files_of_other_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A replica that installs a snapshot has its records at other positions; the rows of its files are wrong.
    """
    monkeypatch.setattr(index_files, "FLUSH_BYTES", 500)
    world = ClusterWorld()
    create(world)
    due = world.clock.now_ms + 30_000
    for start in range(0, 60, 10):
        send(world[1], *[(b"%d" % at, due_at(due + at)) for at in range(start, start + 10)])
        world.pass_time(250)
    replica = world[2].shard(TOPIC).replica
    world[1].shard(TOPIC).replica.needs_install(world[2].broker.identity.voter)
    world.pass_time(5_000)
    world.until(lambda: replica.installing is None and timers(world[2]).is_restored, "restored")
    world.lead(TOPIC, by=2)

    assert [] == values(world[2])

    world.pass_time(15_000)
    world.until(lambda: world[2].partition(TOPIC).high_watermark == 60, "released")

    assert [b"%d" % at for at in range(60)] == values(world[2])

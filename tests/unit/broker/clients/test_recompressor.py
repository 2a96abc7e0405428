"""
Recompression stays within the memory limit for all client connections, and runs a bounded number of requests at a time.
"""

from collections.abc import Sequence

import pytest

from tests.unit.broker.broker_world import HandClock
from tidemill.batches.builder import build_batch
from tidemill.batches.compression import Codec
from tidemill.batches.recompression import SMALL_BYTES_MAX, Compression, Recompression, recompress_all
from tidemill.broker.clients import recompressor
from tidemill.broker.clients.connection_memory import ConnectionMemory
from tidemill.broker.clients.recompressor import RUNNING_MAX, Recompressor, Results, size_of
from tidemill.simulation.machine.jobs import SimulatedJobs

BATCH = build_batch([(None, bytes(1_000), (), 0)], codec=Codec.ZSTD)
ASKED = [Recompression(BATCH, Compression(Codec.NONE), 1 << 20)]
LARGE = [
    Recompression(
        build_batch([(None, bytes(SMALL_BYTES_MAX), (), 0)], codec=Codec.ZSTD), Compression(Codec.LZ4), 1 << 20
    )
]


class World:
    def __init__(self, memory_bytes: int = 1 << 20) -> None:
        self.jobs = SimulatedJobs()
        self.memory = ConnectionMemory(memory_bytes, HandClock())
        self.recompressor = Recompressor(self.jobs, self.memory)
        self.done: list[Results] = []
        self.failures: list[BaseException] = []

    def submit(self, asked: Sequence[Recompression] = ASKED) -> None:
        self.recompressor.submit(asked, self.done.append, self.failures.append)


def test_results_count_as_work_until_their_request_is_answered() -> None:
    """
    The results of a recompression count as memory of requests in flight until the request is answered.  They can be far
    larger than the request, and the connection itself counts only the bytes of the request.
    """
    world = World()

    world.submit()
    world.jobs.stabilize()

    assert len(BATCH) < 200 < 1_000 < size_of(world.done[0]) == world.memory.working_bytes


def test_no_recompression_begins_without_memory() -> None:
    """
    While appends fill the memory of the client connections, no recompression begins.  It begins as soon as completed
    appends have freed memory.
    """
    world = World(memory_bytes=100)
    world.memory.begin_work(100)
    world.submit()
    before = world.jobs.unreported

    world.memory.end_work(100)
    world.jobs.stabilize()

    assert (0, 1) == (before, len(world.done))


def test_a_bounded_number_of_requests_runs_at_a_time() -> None:
    """
    The memory that a running recompression will need is not known, so the number of running requests is bounded.  The
    others wait, and begin in the order in which they arrived.
    """
    world = World()
    for _ in range(RUNNING_MAX + 2):
        world.submit()
    running = world.jobs.unreported

    world.jobs.step()

    assert (RUNNING_MAX, RUNNING_MAX, 1) == (running, world.jobs.unreported, len(world.done))
    world.jobs.stabilize()
    assert RUNNING_MAX + 2 == len(world.done)


def test_large_requests_take_turns() -> None:
    """
    Each of them may take tens of megabytes.  Small ones overtake those that wait, and all are answered.
    """
    world = World()
    for _ in range(3):
        world.submit(LARGE)
    for _ in range(3):  # each is found to be large
        world.jobs.step()
    running = world.jobs.unreported

    world.submit()
    world.jobs.stabilize()

    small, large = size_of(recompress_all(ASKED) or []), size_of(recompress_all(LARGE) or [])
    assert (1, [large, small, large, large]) == (running, [*map(size_of, world.done)])


def test_a_defect_is_reported_and_the_next_request_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    An unexpected exception in a compression library is reported, and recompression continues for other connections.
    """
    world = World()
    monkeypatch.setattr(recompressor, "RUNNING_MAX", 1)
    monkeypatch.setattr(recompressor, "recompress_all", lambda *_: 1 // 0)
    world.submit()
    monkeypatch.undo()
    world.submit()

    world.jobs.stabilize()

    assert ([ZeroDivisionError], 1) == ([type(failure) for failure in world.failures], len(world.done))

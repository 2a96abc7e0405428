"""Threads that do blocking work and report to the loop."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from tidemill.runtime.thread_jobs import ThreadJobs
from tidemill.shard.jobs import Jobs


def run(main: Callable[[asyncio.AbstractEventLoop], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(runner.get_loop()))


def fail(error: BaseException) -> None:
    raise error


def test_one_thread_runs_and_reports_jobs_in_order() -> None:
    """Jobs run off the loop one after another, and are reported on the loop in the same order."""
    ran: list[int] = []
    reported: list[tuple[int, bool]] = []

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        jobs, over, here = ThreadJobs(loop, name="journal"), asyncio.Event(), threading.current_thread()
        port: Jobs = jobs

        def job(number: int) -> int:
            assert threading.current_thread() is not here
            ran.append(number)
            return number

        def done(number: int) -> None:
            reported.append((number, threading.current_thread() is here))
            if number == 999:
                over.set()

        for number in range(1000):
            port.submit(lambda number=number: job(number), done, fail)
        await over.wait()
        jobs.stop()

    run(main)

    assert ran == list(range(1000))
    assert reported == [(number, True) for number in range(1000)]


def test_exceptions_of_jobs_are_reported() -> None:
    """An exception in a job is reported, even one that is not an `Exception`, and the thread continues."""
    reported: list[object] = []

    class Ending(BaseException):
        pass

    def raising() -> None:
        raise Ending

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        jobs, over = ThreadJobs(loop, name="journal"), asyncio.Event()
        jobs.submit(raising, reported.append, lambda error: reported.append(type(error)))
        jobs.submit(lambda: "next", lambda result: (reported.append(result), over.set()), fail)
        await over.wait()
        jobs.stop()

    run(main)

    assert reported == [Ending, "next"]


def test_several_threads_work_in_parallel() -> None:
    """Several threads work in parallel, so that a read that waits for the disk does not delay other reads."""
    reported: list[str] = []

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        jobs, over, meeting = ThreadJobs(loop, name="reads", threads=3), asyncio.Event(), threading.Barrier(3)

        def done(_: int) -> None:
            reported.append("met")
            if len(reported) == 3:
                over.set()

        for _ in range(3):
            jobs.submit(lambda: meeting.wait(timeout=5), done, fail)
        await over.wait()
        jobs.stop()

    run(main)

    assert reported == ["met"] * 3


@pytest.mark.parametrize("threads", [1, 3])
def test_stop_runs_all_submitted_jobs(threads: int) -> None:
    """`stop` runs all submitted jobs but reports no results, since a report might submit further jobs."""
    ran: list[int] = []
    reported: list[int] = []

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        jobs = ThreadJobs(loop, name="journal", threads=threads)
        for number in range(20):
            jobs.submit(
                lambda number=number: (time.sleep(0.001), ran.append(number))[1] or number, reported.append, fail
            )
        jobs.stop()
        jobs.stop()
        assert sorted(ran) == list(range(20))
        await asyncio.sleep(0)
        assert ([], 0) == (reported, jobs.unreported)

    run(main)

    assert not [thread for thread in threading.enumerate() if thread.name.startswith("journal")]


def test_an_idle_thread_keeps_no_reference_to_its_last_job() -> None:
    """An idle thread frees a job's bytes once its result is reported, not only when the next job arrives."""
    freed = threading.Event()

    class Batch:
        def __del__(self) -> None:
            freed.set()

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        jobs, over = ThreadJobs(loop, name="journal"), asyncio.Event()
        batch = Batch()
        jobs.submit(lambda batch=batch: batch, lambda _: over.set(), fail)
        del batch
        await over.wait()
        heard = await loop.run_in_executor(None, freed.wait, 5)
        jobs.stop()
        assert heard

    run(main)

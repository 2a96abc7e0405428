"""The virtual-time event loop keeps the guarantees of asyncio and never waits for real time."""

import asyncio
import gc
import weakref

import pytest

from tidemill.simulation.machine.event_loop import US, SimulatedLoop, Timeline, begin_loop


def test_a_sleep_takes_virtual_time_on_the_loops_own_clock() -> None:
    """On a clock that runs twice as fast, a sleep of one second ends after half a second of virtual time."""
    timeline = Timeline()
    loop = begin_loop(timeline, rate=2.0)
    woken: list[int] = []

    async def sleep() -> None:
        await asyncio.sleep(1)
        woken.append(timeline.now_us)

    loop.call_soon(lambda: loop.create_task(sleep()))
    timeline.run_until(10 * US)

    assert len(woken) == 1
    assert US // 2 <= woken[0] < US // 2 + 1_000


def test_a_callback_that_becomes_ready_in_a_turn_waits_for_the_next() -> None:
    timeline = Timeline()
    loop = begin_loop(timeline)
    order: list[str] = []
    loop.call_soon(lambda: (order.append("first"), loop.call_soon(order.append, "third")))
    loop.call_soon(order.append, "second")

    timeline.run_until(US)

    assert order == ["first", "second", "third"]


def test_a_paused_process_runs_its_callbacks_later_in_order() -> None:
    timeline = Timeline()
    loop = begin_loop(timeline)
    seen: list[tuple[str, int]] = []
    for name, delay_s in (("a", 0.1), ("b", 0.2), ("c", 3.0)):
        loop.call_later(delay_s, lambda name=name: seen.append((name, timeline.now_us // 100_000)))

    loop.pause(2 * US)
    timeline.run_until(5 * US)

    assert seen == [("a", 20), ("b", 20), ("c", 30)]


def test_a_call_is_freed_without_the_garbage_collector() -> None:
    """A run has so many events that freeing a cycle for each would take much of its time."""

    class Call:
        def __call__(self) -> None:
            """Do nothing."""

    timeline = Timeline()
    loop = begin_loop(timeline)
    call = Call()
    freed = weakref.ref(call)
    gc.disable()
    try:
        loop.after(1, call)
        del call
        timeline.run_until(US)

        assert freed() is None
    finally:
        gc.enable()


def test_a_killed_process_runs_nothing_more() -> None:
    timeline = Timeline()
    loop = begin_loop(timeline)
    happened: list[str] = []
    loop.call_later(1, happened.append, "a timer")

    async def task() -> None:
        try:
            await asyncio.sleep(1)
        finally:
            happened.append("its end")

    loop.call_soon(lambda: loop.create_task(task()))
    timeline.run_until(US // 2)
    loop.kill()
    loop.call_soon(happened.append, "a call")
    timeline.run_until(5 * US)

    assert happened == []


def test_an_uncaught_error_ends_the_run() -> None:
    timeline = Timeline()
    loop = begin_loop(timeline)
    loop.call_soon(lambda: [].pop())

    with pytest.raises(IndexError):
        timeline.run_until(US)


def test_an_endless_chain_of_callbacks_does_not_stop_time() -> None:
    timeline = Timeline()
    loop = begin_loop(timeline)

    def again() -> None:
        loop.call_soon(again)

    loop.call_soon(again)
    timeline.run_until(US // 100)

    assert timeline.now_us == US // 100


@pytest.mark.parametrize("call", [SimulatedLoop.call_soon_threadsafe, SimulatedLoop.run_in_executor])
def test_threads_are_refused(call: object) -> None:
    loop = begin_loop(Timeline())

    with pytest.raises(NotImplementedError):
        call(loop, None, None)  # type: ignore[operator]

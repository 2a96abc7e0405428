"""
The client side of a case of `benchmarks.timers`, in a process of its own: one piece of work, and one line of JSON.

    python -m benchmarks.timer_load '{"do": "insert", "system": "nats", "address": …, "topic": …, …}'
"""

import json
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks.timer_clients import CLIENTS, DIGITS, NUMBER, KafkaTimers, TimerClient, random_dues

Outcome = dict[str, float]
QUANTILES: Final = {"p50": 0.5, "p99": 0.99}
SETTLE_SECONDS: Final = 1.0  # after cancelled timers would have been due


class _TimeIsUp(Exception):
    """The next message has not come in time."""


def create(client: TimerClient) -> Outcome:
    client.create()
    return {}


def insert(client: TimerClient, *, records: int, first_ms: int, span_ms: int) -> Outcome:
    seconds = client.insert(random_dues(first_ms, span_ms, records))
    return {"value": records / seconds, "ended_ms": time.time() * 1_000}


def receive(client: TimerClient, *, records: int, first_ms: int, span_ms: int, wait_ms: int) -> Outcome:
    """
    Receive messages until all have come, or until `wait_ms` after the last is due, and return how late they came, in
    ms.  Those that have not come count as that late, at least.
    """
    seen = bytearray(records)
    late: list[float] = []
    now_ms, came = 0.0, 0
    signal.signal(signal.SIGALRM, _time_is_up)
    signal.setitimer(signal.ITIMER_REAL, (first_ms + span_ms + wait_ms) / 1_000 - time.time())
    lots = client.receive()
    print(json.dumps({"event": "connected"}), flush=True)
    try:
        for lot in lots:
            now_ms = time.time() * 1_000
            for content in lot:
                number = int(content[NUMBER])
                came += not seen[number]
                seen[number] = 1
                late.append(now_ms - int(content[:DIGITS]))
            if came == records:
                break
    except _TimeIsUp:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    sorted_late = sorted([*late, *[max(wait_ms, *late[-1:])] * (records - came)])
    return {
        **{name: sorted_late[int(len(sorted_late) * share)] for name, share in QUANTILES.items()},
        "max": sorted_late[-1],
        "early": sum(it < 0 for it in late),
        "twice": len(late) - came,
        "missing": records - came,
        "rate": came * 1_000 / max(now_ms - first_ms, 1),
    }


def _time_is_up(*_: object) -> None:
    raise _TimeIsUp


def delays(client: TimerClient, *, records: int, first_ms: int, span_ms: int) -> Outcome:
    """Insert messages with times in digits, and then with delays, and return both rates."""
    assert isinstance(client, KafkaTimers)
    dues = random_dues(first_ms, span_ms, records)
    inserted = client.insert(dues)
    return {"value": records / client.insert_delayed(dues), "inserted": records / inserted}


def cancel(client: TimerClient, *, records: int, first_ms: int, span_ms: int) -> Outcome:
    """Insert timers, cancel them by records, and return both rates.  Raise RuntimeError if any is delivered."""
    assert isinstance(client, KafkaTimers)
    inserted = client.insert_named(random_dues(first_ms, span_ms, records))
    cancelled = client.cancel(records)
    left = first_ms / 1_000 - time.time()
    if left < 0:
        raise RuntimeError(f"the timers were due {-left:.1f} s before all were cancelled")
    time.sleep(left + span_ms / 1_000 + SETTLE_SECONDS)
    if delivered := client.delivered():
        raise RuntimeError(f"{delivered} of {records} timers were delivered, though they were cancelled")
    return {"value": records / cancelled, "inserted": records / inserted}


def first(client: TimerClient) -> Outcome:
    """Return the monotonic time of the first message from a broker that may not have been started yet."""
    print(json.dumps({"event": "connected"}), flush=True)
    next(lot for lot in client.receive() if lot)
    return {"moment": time.monotonic()}


WORK: dict[str, Callable[..., Outcome]] = {it.__name__: it for it in (create, insert, delays, receive, cancel, first)}


def main() -> None:
    order: dict[str, Any] = json.loads(sys.argv[1])
    client = CLIENTS[order.pop("system")](order.pop("address"), order.pop("topic"))
    print(json.dumps(WORK[order.pop("do")](client, **order)), flush=True)


if __name__ == "__main__":
    main()

"""Kill the leader of every shard once with kill -9 and restart it, while producers write and consumers read.

This kills one broker at a time, waits until other brokers lead its shards, restarts it with the command in the ready
line, and waits until it has everything that the leaders had at its restart.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from examples.failure import DemoFailed
from tidemill.cli.cluster_view import ClusterView, read_view
from tidemill.client.broker_http import NoResponse

CHECK_SECONDS = 0.1
LEADERS_SECONDS_MAX = 30
CATCH_UP_SECONDS_MAX = 60
RECORDS_PER_BREATH = 100  # clients pause after this many records while brokers are killed: all kills happen under load
BREATH_SECONDS = 0.02

Targets = dict[int, int]  # log index by shard


class Calm:
    """A variant of `LeaderKills` that kills no broker: every method does nothing."""

    is_over = True
    client_log_level = 4  # warnings

    def begin(self) -> None:
        """Do nothing."""

    def breathe(self) -> None:
        """Return immediately: clients run at full speed."""

    def waited(self, seconds: float) -> None:
        """Do nothing: waiting times are not reported."""

    def finish(self) -> None:
        """Do nothing: no kill is in progress."""

    def close(self) -> None:
        """Do nothing: no broker was started."""

    def told(self) -> str:
        return ""


class LeaderKills(Calm):
    client_log_level = 0  # lost connections are expected

    def __init__(
        self,
        brokers: list[dict[str, Any]],
        directory: Path,
        environment: Mapping[str, str],
        tell: Callable[[str], object],
    ) -> None:
        """`brokers` come from the ready line; logs of restarted brokers go into `directory`."""
        self._tell = tell
        self.is_over = True
        self._brokers = {broker["id"]: broker for broker in brokers}
        self._pids = {broker["id"]: broker["pid"] for broker in brokers}
        self._again: dict[int, subprocess.Popen[bytes]] = {}
        self._directory = directory
        self._environment = dict(environment)
        self._shards: set[int] = set()  # shards whose leader was killed
        self._kills = 0
        self._waited_s = 0.0
        self._failure: Exception | None = None
        self._is_closing = False
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start a thread that kills brokers until every existing shard has lost its leader once."""
        self.is_over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def breathe(self) -> None:
        if not self.is_over:
            time.sleep(BREATH_SECONDS)

    def waited(self, seconds: float) -> None:
        """Note that a record was acknowledged `seconds` after it was sent."""
        if not self.is_over:
            self._waited_s = max(self._waited_s, seconds)

    def finish(self) -> None:
        """Wait until the kills are done.  Raise DemoFailed if a shard found no leader, or a broker did not catch up."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Stop the brokers that this object has restarted.  The others belong to `tidemill dev`."""
        self._is_closing = True
        if self._thread is not None:
            self._thread.join()
        for process in self._again.values():
            process.terminate()
        for process in self._again.values():
            process.wait(LEADERS_SECONDS_MAX)

    def told(self) -> str:
        return (
            f"Killed {self._kills} brokers with kill -9: the leader of each of {len(self._shards)} shards once.  "
            f"All are back and have caught up; no write waited longer than {self._waited_s:.1f} s."
        )

    def _run(self) -> None:
        try:
            view = self._until(self._is_whole, CATCH_UP_SECONDS_MAX)
            while (victim := self._next(view)) is not None and not self._is_closing:
                at = [time.monotonic()]
                self._kill(victim, view)
                self._until(partial(_without, victim), LEADERS_SECONDS_MAX)
                at.append(time.monotonic())
                self._start_again(victim)
                view = self._until(partial(_is_back, victim), CATCH_UP_SECONDS_MAX)
                at.append(time.monotonic())
                targets = {row["shard_id"]: row["led_here"]["last_index"] for row in view.shards}
                view = self._until(partial(_lacks, victim, targets), CATCH_UP_SECONDS_MAX)
                at.append(time.monotonic())
                others, back, whole = (after - before for before, after in pairwise(at))
                self._tell(
                    f"Broker {victim} killed: other leaders after {others:.1f} s; restarted: back after "
                    f"{back:.1f} s, caught up {whole:.1f} s later"
                )
        except Exception as failure:
            self._failure = failure
        finally:
            self.is_over = True

    def _is_whole(self, view: ClusterView) -> str | None:
        problems = [f"shard {row['shard_id']} is {row['state']}" for row in view.shards if row["state"] != "ok"]
        return problems[0] if problems else None

    def _next(self, view: ClusterView) -> int | None:
        """Return the broker that leads most of the shards whose leader has not been killed yet."""
        left = [row["leader"] for row in view.shards if row["shard_id"] not in self._shards]
        return max(sorted(set(left)), key=left.count, default=None)

    def _kill(self, broker: int, view: ClusterView) -> None:
        self._shards |= {row["shard_id"] for row in view.shards if row["leader"] == broker}
        self._kills += 1
        os.kill(self._pids[broker], signal.SIGKILL)
        if broker in self._again:
            self._again[broker].wait()

    def _start_again(self, broker: int) -> None:
        with (self._directory / f"broker-{broker}-again.log").open("ab") as log:
            process = subprocess.Popen(
                self._brokers[broker]["command"], stdout=subprocess.DEVNULL, stderr=log, env=self._environment
            )
        self._again[broker] = process
        self._pids[broker] = process.pid

    def _until(self, problem_of: Callable[[ClusterView], str | None], seconds_max: float) -> ClusterView:
        """Poll until `problem_of` finds no problem, and return that view of the cluster."""
        deadline = time.monotonic() + seconds_max
        addresses = [broker["http"] for broker in self._brokers.values()]
        while True:
            try:
                view = read_view(addresses)
                problem = problem_of(view)
                if problem is None:
                    return view
            except NoResponse as answer:
                problem = f"no broker answers ({answer})"
            if time.monotonic() > deadline or self._is_closing:
                raise DemoFailed(f"{problem}, {seconds_max:.0f} s later; see {self._directory}")
            time.sleep(CHECK_SECONDS)


def _without(gone: int, view: ClusterView) -> str | None:
    for row in view.shards:
        if row["led_here"] is None or row["leader"] == gone:
            return f"broker {gone} was killed, and shard {row['shard_id']} of {row['topic']} has no other leader"
    return None


def _is_back(back: int, view: ClusterView) -> str | None:
    """Return a problem unless every shard has a leader that reports it as ok, with the restarted broker as a live
    member.
    """
    for row in view.shards:
        if row["led_here"] is None:
            return f"shard {row['shard_id']} of {row['topic']} has no leader that reports it"
        if row["state"] != "ok":
            return f"broker {back} was restarted, and shard {row['shard_id']} of {row['topic']} is {row['state']}"
    return None


def _lacks(back: int, targets: Targets, view: ClusterView) -> str | None:
    """Return a problem unless the restarted broker has every shard on its disk up to the log index in `targets`."""
    for row in view.shards:
        for member in () if row["led_here"] is None else row["led_here"]["members"]:
            if member["broker_id"] != back:
                continue
            shard = f"shard {row['shard_id']} of {row['topic']}"
            if member["match_index"] is None:  # the leader has not heard of the broker's log yet
                return f"broker {back} was restarted, and the leader of {shard} does not know its log yet"
            lacks = targets.get(row["shard_id"], 0) - member["match_index"]
            if lacks > 0:
                return f"broker {back} was restarted and has not caught up: it lacks {lacks:,} rows of {shard}"
    return _is_back(back, view)

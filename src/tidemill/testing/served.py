"""What tests use of a running broker or cluster: its addresses, and topics and groups of their own."""

import http.client
import json
import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import tidemill
from tidemill.sdk.durations import DAY_MS, Duration, milliseconds
from tidemill.testing.process import Process

ANSWER_S_MAX: Final = 60.0  # a topic waits for its leaders, which may have to be elected
PAUSE_S: Final = 0.02
ADVANCE_MS_MAX: Final = 36_500 * DAY_MS  # a hundred years: delays may be as long, and times end with the year 9999
NAME_CHARACTERS_MAX: Final = 100  # of the test's name in the names of its topics and groups
_OTHERS: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Served:
    """
    A running broker or cluster.

    `bootstrap` is for Kafka clients ("127.0.0.1:PORT", several separated by commas), and `http` is the address of its
    HTTP API ("http://127.0.0.1:PORT").
    """

    def __init__(self) -> None:
        self.processes: dict[int, Process] = {}  # by broker id
        self._kafka: dict[int, str] = {}
        self._http: dict[int, str] = {}
        self._ahead_ms = 0  # how far the wall clocks of the brokers are ahead of the machine's

    @property
    def bootstrap(self) -> str:
        return ",".join(self._kafka.values())

    @property
    def http(self) -> str:
        return f"http://{self._http[self.running[0]]}"

    @property
    def running(self) -> Sequence[int]:
        """The ids of the brokers that run.  Raise BrokerFailed if none does."""
        found = [number for number, process in self.processes.items() if process.is_running]
        if not found:
            raise next(iter(self.processes.values())).failure("does not run any more")
        return found

    def topic(self, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """
        Create a topic, and return its name, which contains that of the test and is used by no other test.

        Every running broker knows the topic and its leaders then.  Raise ValueError if the topic is refused.
        """
        name = _unique()
        body = {"name": name, "partitions": partitions, "configs": dict(configs or {})}
        until = time.monotonic() + ANSWER_S_MAX
        status, answered = self._asked(self.running[0], "POST", "/v1/topics", body, until)
        if status != http.HTTPStatus.CREATED:
            raise ValueError(f"partitions={partitions}, configs={configs}: {answered['detail']}")
        for number in self.running:
            while not _is_led(*self._asked(number, "GET", f"/v1/topics/{name}", None, until)):
                self._pause(number, until, f"has heard of no leaders of topic {name}")
        return name

    def group(self) -> str:
        """Return the name of a group, which contains that of the test and is used by no other test."""
        return _unique()

    def connect(self) -> "tidemill.Mill":
        """Return a client that is connected; use it in a `with` statement."""
        return tidemill.connect(self.bootstrap)

    def now(self) -> datetime:
        """Return the time of the brokers' wall clocks."""
        return datetime.fromtimestamp(self._wall_ms() / 1_000, UTC)

    def advance(self, duration: Duration) -> None:
        """
        Move the wall clocks of all brokers forward, and return when each broker knows that of each other one.

        What has become due is then delivered at once.  Clocks stay forward until the session ends.  `duration` is "1h"
        or the like, a number of seconds, or a timedelta.  Raise ValueError if it is negative: no clock goes back.
        """
        ms = milliseconds("duration", duration, at_most_ms=ADVANCE_MS_MAX)
        self._ahead_ms += ms
        awaited, until = self._wall_ms(), time.monotonic() + ANSWER_S_MAX
        told = {number: self.processes[number].advance(ms) for number in self.running}
        for number, clocks in told.items():
            while any(other != number and clocks["clocks_ms"].get(str(other), 0) < awaited for other in told):
                self._pause(number, until, "has not heard the time of the others")
                clocks = self.processes[number].advance(0)

    def _wall_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def _asked(self, number: int, method: str, path: str, body: object, until: float) -> tuple[int, Any]:
        """Return the status and the body of a response.  Ask again while the broker asks for that (503)."""
        data = None if body is None else json.dumps(body)
        while True:
            connection = http.client.HTTPConnection(self._http[number], timeout=ANSWER_S_MAX)
            try:
                connection.request(method, path, data, {"Content-Type": "application/json"})
                response = connection.getresponse()
                status, answered = response.status, json.loads(response.read())
            except OSError as error:
                raise self.processes[number].failure(f"does not answer {method} {path}: {error}") from error
            finally:
                connection.close()
            if status != http.HTTPStatus.SERVICE_UNAVAILABLE:
                return status, answered
            self._pause(number, until, f"answers {method} {path} with {answered}")

    def _pause(self, number: int, until: float, problem: str) -> None:
        if time.monotonic() > until:
            raise self.processes[number].failure(problem)
        time.sleep(PAUSE_S)


def _is_led(status: int, topic: Any) -> bool:
    return status == http.HTTPStatus.OK and all(it["leader"] is not None for it in topic["partitions"])


def _unique() -> str:
    """Return a name that no other test uses."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0].rpartition("::")[2]
    shown = _OTHERS.sub("-", test)[:NAME_CHARACTERS_MAX].strip("-")
    return f"{shown or 'tests'}-{secrets.token_hex(4)}"

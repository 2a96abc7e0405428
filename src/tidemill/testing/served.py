"""What tests use of a running broker or cluster: its addresses, and topics and groups of their own."""

import http.client
import json
import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import tidemill
from tidemill.testing.process import Process

ANSWER_S_MAX: Final = 60.0  # a topic waits for its leaders, which may have to be elected
PAUSE_S: Final = 0.02
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

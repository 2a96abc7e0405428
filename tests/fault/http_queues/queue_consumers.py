"""Consumers of a queue over HTTP, and what each message has gone through."""

import http.client
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from threading import Lock, Thread
from typing import Any, Final

from tidemill.share.receipt import Receipt, decode_receipt

LEASE_MS: Final = 2_000
BATCH: Final = 50
WAIT_MS: Final = 1_000
ANSWER_S_MAX: Final = 15.0
REPEAT_S: Final = 0.1
NACK_SHARE: Final = 0.05
REJECT_SHARE: Final = 0.02
FORGET_SHARE: Final = 0.01  # of the messages, whose leases end
STALE_SHARE: Final = 0.5  # of the repeated deliveries, whose former receipt is tried
MessageId = tuple[int, int]  # partition and offset


class Ledger:
    """What consumers know about each message.  Its methods may be called by any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._receipts: dict[MessageId, str] = {}  # of the last delivery
        self.attempts: Counter[MessageId] = Counter()
        self.finished_at: dict[MessageId, float] = {}  # when the first response said that it is acknowledged
        self.values: dict[MessageId, str] = {}
        self.unknown = 0  # requests that were sent again, because their responses were lost
        self.stale = Counter[str]()  # statuses of former receipts
        self.violations: list[str] = []

    def delivered(self, message: dict[str, Any], asked_at: float) -> str | None:
        """Note a delivery, and return the receipt of the one before it, if there was one."""
        key = message["partition"], message["offset"]
        with self._lock:
            former = self._receipts.get(key)
            self._receipts[key] = message["receipt"]
            self.attempts[key] += 1
            self.values[key] = message["value"]
            finished_at = self.finished_at.get(key)
            if finished_at is not None and finished_at < asked_at:
                self.violations.append(f"{key} was delivered {asked_at - finished_at:.3f} s after its acknowledgement")
            return former

    def finished(self, key: MessageId) -> None:
        with self._lock:
            self.finished_at.setdefault(key, time.monotonic())

    def repeated(self) -> None:
        with self._lock:
            self.unknown += 1

    def stale_receipt(self, former: Receipt, current: Receipt, status: str, held_s: float) -> None:
        """Note the status of a former receipt, which was sent while the consumer held the message for `held_s`."""
        with self._lock:
            same_term = former.term == current.term
            self.stale[f"{status}, {'same' if same_term else 'another'} term"] += 1
            if status == "ok" and same_term and held_s < LEASE_MS / 1_000:
                self.violations.append(f"the receipt {former} was accepted while {current} was valid")


class Consumer(Thread):
    """
    Receives messages, and acknowledges, releases, rejects, extends or forgets them at random.  A request whose response
    was lost is sent again, to the next broker.
    """

    def __init__(self, ports: Sequence[int], path: str, ledger: Ledger, seed: int) -> None:
        super().__init__(name=f"consumer-{seed}", daemon=True)
        self._ports = ports
        self._at = seed % len(ports)
        self._path = path
        self._ledger = ledger
        self._random = random.Random(seed)
        self._connection: http.client.HTTPConnection | None = None
        self.is_stopping = False
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.is_stopping:
                self._work()
        except BaseException as error:
            self.error = error
        finally:
            self._disconnect()

    def _work(self) -> None:
        asked_at = time.monotonic()
        body = {"consumer": self.name, "max": BATCH, "wait_ms": WAIT_MS, "lease_ms": LEASE_MS}
        answer = self._sent("receive", body)
        received_at = time.monotonic()
        if answer is None:  # its messages are delivered again when their leases end
            return
        chosen: dict[str, list[dict[str, Any]]] = {"ack": [], "nack": [], "reject": [], "forget": []}
        for message in answer["messages"]:
            former = self._ledger.delivered(message, asked_at)
            if former is not None and self._random.random() < STALE_SHARE:
                self._try_stale(former, message["receipt"], received_at)
            chosen[self._choice()].append(message)
        if chosen["ack"] and self._random.random() < 0.1:
            self._decided("extend", chosen["ack"], {"lease_ms": LEASE_MS})
        self._decided("nack", chosen["nack"], {"delay_ms": 100})
        for action in ("ack", "reject"):
            self._decided(action, chosen[action], {})

    def _choice(self) -> str:
        drawn = self._random.random()
        for action, share in (("nack", NACK_SHARE), ("reject", REJECT_SHARE), ("forget", FORGET_SHARE)):
            if drawn < share:
                return action
            drawn -= share
        return "ack"

    def _try_stale(self, former: str, current: str, received_at: float) -> None:
        answer = self._sent("ack", {"receipts": [former]})
        held_s = time.monotonic() - received_at
        first, second = decode_receipt(former), decode_receipt(current)
        if answer is not None and first is not None and second is not None:
            self._ledger.stale_receipt(first, second, answer["statuses"][0], held_s)

    def _decided(self, action: str, messages: Sequence[dict[str, Any]], more: dict[str, object]) -> None:
        """Send receipts until each has a status that is known, as the documentation advises."""
        waiting = list(messages)
        while waiting:
            answer = self._sent(action, {"receipts": [it["receipt"] for it in waiting], **more})
            unknown = []
            for message, status in zip(
                waiting, ["unknown"] * len(waiting) if answer is None else answer["statuses"], strict=True
            ):
                assert status in ("ok", "expired", "unknown"), (action, status)
                if status == "unknown":
                    unknown.append(message)
                elif status == "ok" and action in ("ack", "reject"):
                    self._ledger.finished((message["partition"], message["offset"]))
            waiting = unknown
            if waiting:
                self._ledger.repeated()
                time.sleep(REPEAT_S)

    def _sent(self, action: str, body: dict[str, object]) -> Any:
        """Return the response; None if it was lost or no broker can answer now."""
        if self._connection is None:
            self._at = (self._at + 1) % len(self._ports)
            self._connection = http.client.HTTPConnection("127.0.0.1", self._ports[self._at], timeout=ANSWER_S_MAX)
        try:
            head = {"Content-Type": "application/json"}
            self._connection.request("POST", f"{self._path}/{action}", json.dumps(body), head)
            response = self._connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException):
            self._disconnect()
            return None
        if response.status == 503:
            self._disconnect()
            time.sleep(REPEAT_S)
            return None
        assert response.status == 200, (action, response.status, text)
        return json.loads(text)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

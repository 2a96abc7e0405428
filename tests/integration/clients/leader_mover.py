"""Moves leaders: periodically asks every broker to transfer leadership of all its shards to the next broker.

It connects like a broker: it authenticates with the cluster key and sends requests to transfer leadership.
"""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tidemill.app.settings import LOOPBACK_KEY
from tidemill.peer import frame as frames
from tidemill.peer.hello import Hello
from tidemill.peer.link import Link
from tidemill.peer.transfer_leadership import API, Request
from tidemill.runtime.os_entropy import OsEntropy
from tidemill.runtime.peer_transport import PeerTransport
from tidemill.telemetry.event_log import EventLog

SHARDS_MAX = 4_000  # shard ids to try; a broker refuses the ids of shards that it does not lead


class LeaderMover:
    """
    A context manager that moves leaders until it exits.

    `moved` counts accepted transfers, and `rounds` counts the rounds of requests.
    """

    def __init__(self, peers: Sequence[str], seconds: float) -> None:
        """`peers` are the peer listeners of brokers 1, 2 and so on; `seconds` is the time between rounds."""
        self.moved = 0
        self.rounds = 0
        self._peers = peers
        self._seconds = seconds
        self._links: dict[int, Link] = {}
        self._asked_at = 0.0
        self._stop = threading.Event()
        self._still = threading.Event()
        self._is_still = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leader mover")

    def __enter__(self) -> "LeaderMover":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @contextmanager
    def still(self) -> Iterator[None]:
        """Keep leaders from moving until the context exits."""
        self._still.set()
        assert self._is_still.wait(5), "the mover did not pause"
        try:
            yield
        finally:
            self._is_still.clear()
            self._still.clear()

    def _run(self) -> None:
        asyncio.run(self._move())

    async def _move(self) -> None:
        loop = asyncio.get_running_loop()
        transport = PeerTransport(loop, self, LOOPBACK_KEY, OsEntropy(), EventLog(print, lambda: 0, as_json=False))
        transport.reach(self._peers)
        since = loop.time()
        while not self._stop.is_set():
            await asyncio.sleep(0.05)
            if self._still.is_set():
                if loop.time() - self._asked_at > 0.5:  # transfers in progress have ended by then
                    self._is_still.set()
                continue
            if loop.time() - since < self._seconds or len(self._links) < len(self._peers):
                continue
            since = self._asked_at = loop.time()
            self.rounds += 1
            for number, link in sorted(self._links.items()):
                to = number % len(self._peers) + 1
                moves = [Request.Move(shard_id=shard_id, to=to) for shard_id in range(SHARDS_MAX)]
                link.send(frames.encode_request(self.rounds, API.encode_request(0, Request(moves=moves), 0)))
        transport.close()

    # Methods of peer.link.LinkOwner.

    def hello(self) -> Hello:
        return Hello(cluster_id="", voter=None, incarnation=1, address="")

    def linked(self, link: Link) -> None:
        voter = link.hello.voter
        assert voter is not None, "the peer is not a broker of the cluster"
        self._links[voter.broker_id] = link

    def received(self, link: Link, frame: memoryview) -> None:
        for section in frames.sections(frame):
            if isinstance(section, frames.Response):
                response = API.decode_response(0, section.data, API.response_body_at(0, section.data))
                self.moved += SHARDS_MAX - len(response.refused)

    def lost(self, link: Link, why: str) -> None:
        voter = link.hello.voter
        if voter is not None:
            self._links.pop(voter.broker_id, None)

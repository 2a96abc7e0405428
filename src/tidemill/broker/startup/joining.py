"""Joining: requests admission for a broker with an empty directory from the brokers at the configured addresses.

connection to any broker ─▶ Join ─▶ cluster id and broker id
             ▲               └── no controller at the moment: retry after a pause, there and at the brokers it hears
             └───────────────────────┘
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from tidemill.broker.machine import Machine
from tidemill.broker.peers.peers import GIVEN_UP_MS
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, DirectoryId
from tidemill.peer import frame as frames
from tidemill.peer import join
from tidemill.peer.hello import Hello
from tidemill.peer.link import Link, Links
from tidemill.peer.session import KEY_DIFFERS
from tidemill.storage.data_directory import WrongDirectory

AGAIN_MS: Final = 300
TELL_MS: Final = 5_000  # interval between log events while no broker has responded
NOT_NOW: Final = frozenset({errors.NOT_CONTROLLER, errors.REQUEST_TIMED_OUT})


class Joining:
    """Requests the admission of one directory.  Implements `peer.link.LinkOwner` until the response arrives."""

    def __init__(
        self,
        machine: Machine,
        addresses: Sequence[str],
        directory_id: DirectoryId,
        broker_id: BrokerId | None,
        newest_level: int,
        done: Callable[[join.Response], None],
    ) -> None:
        """
        `newest_level` is the highest feature level that this version of Tidemill supports.  `done` is called once, with
        the response that admits or refuses the directory.
        """
        self._machine = machine
        self._addresses = addresses
        self._heard_of: dict[str, None] = {}  # the addresses of further brokers, from their peers
        self._request = join.Request(
            directory_id=directory_id, broker_id=-1 if broker_id is None else broker_id, level=newest_level
        )
        self._incarnation = int.from_bytes(machine.entropy.random_bytes(8)) >> 1
        self._done: Callable[[join.Response], None] | None = done
        self._links: Links | None = None
        self._heard_at: dict[Link, int] = {}
        self._problem: str | None = None  # for the log: the last error, or why the last connection was lost
        self._timers: list[Any] = []

    def begin(self) -> None:
        assert self._machine.links is not None, "a broker that joins has a peer listener"
        self._links = self._machine.links(self)
        self._links.reach(self._addresses)
        self._tell(self._machine.clock.monotonic_ms())

    def _tell(self, began_at: int) -> None:
        links = self._links
        assert links is not None, "it has begun"

        def on_timeout() -> None:
            # A refusal says more than a failure: other addresses may fail because their brokers are down.
            problem = self._problem or links.last_refusal or links.last_failure or "no broker has answered"
            waited_ms = self._machine.clock.monotonic_ms() - began_at
            fields = {"join": ",".join(self._addresses), "problem": problem}
            if KEY_DIFFERS in problem:
                fields["fix"] = f"{KEY_DIFFERS}, and set tidemill.join to peer listeners of some"
            elif not self._heard_at and links.last_refusal is None:  # a refusal names its own fix
                fields["fix"] = "if there is no cluster yet, start its first broker without tidemill.join"
            self._machine.events.waiting("waiting to join", waited_ms, **fields)
            self._give_up()
            self._tell(began_at)

        self._timers = [self._machine.call_later(TELL_MS / 1_000, on_timeout)]

    def _give_up(self) -> None:
        """Close connections on which nothing has arrived for `GIVEN_UP_MS`.  The links then open them again."""
        now = self._machine.clock.monotonic_ms()
        for link, heard_at in [*self._heard_at.items()]:
            if now - heard_at > GIVEN_UP_MS:
                link.close(f"nothing was heard for {GIVEN_UP_MS} ms")

    def hello(self) -> Hello:
        return Hello(cluster_id="", voter=None, incarnation=self._incarnation, address="")

    def linked(self, link: Link) -> None:
        self._heard_at[link] = self._machine.clock.monotonic_ms()
        self._ask(link)

    def _ask(self, link: Link) -> None:
        if self._done is not None:
            link.send(frames.encode_request(0, join.API.encode_request(0, self._request, 0)))

    def received(self, link: Link, frame: memoryview) -> None:
        self._heard_at[link] = self._machine.clock.monotonic_ms()
        for section in frames.sections(frame):
            if isinstance(section, frames.Response):
                data = section.data
                self._answered(link, join.API.decode_response(0, data, join.API.response_body_at(0, data)))

    def _answered(self, link: Link, answer: join.Response) -> None:
        if answer.error_code in NOT_NOW:
            self._problem = f"the cluster has no controller now (error {answer.error_code})"
            self._reach(answer.live_peers)
            self._timers.append(self._machine.call_later(AGAIN_MS / 1_000, lambda: self._ask(link)))
            return
        done, self._done = self._done, None
        if done is not None:
            assert self._links is not None, "what answers was asked"
            self._links.close()
            for timer in self._timers:
                timer.cancel()
            done(answer)

    def _reach(self, others: Sequence[str]) -> None:
        """Ask further brokers, too: the one that named them may be lost before there is a controller."""
        known = len(self._heard_of)
        self._heard_of |= dict.fromkeys(others)
        if self._links is not None and len(self._heard_of) > known:
            self._links.reach([*dict.fromkeys((*self._addresses, *self._heard_of))])

    def lost(self, link: Link, why: str) -> None:
        self._heard_at.pop(link, None)
        self._problem = why


def refusal(answer: join.Response, broker_id: BrokerId | None) -> WrongDirectory:
    wished = "a broker" if broker_id is None else f"broker {broker_id}"
    return WrongDirectory(f"{wished} may not join: {answer.error_message or f'error {answer.error_code}'}")

"""A broker with an empty directory asks one broker after the other to be admitted."""

from collections.abc import Collection, Sequence

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.broker.connection.peer_requests import FRAME_SIZE_BYTES
from tidemill.broker.startup.joining import Joining
from tidemill.model import errors
from tidemill.model.broker_id import DirectoryId
from tidemill.peer import frame as frames
from tidemill.peer import join
from tidemill.peer.hello import Hello
from tidemill.peer.link import Buffer


class HandLink:
    """A connection to a broker, which counts the requests that are sent on it."""

    def __init__(self) -> None:
        self.hello = Hello(cluster_id="c", voter=None, incarnation=2, address="h:1")
        self.sent = 0

    def send(self, _: Sequence[Buffer]) -> bool:
        self.sent += 1
        return True

    def close(self, why: str) -> None:
        raise AssertionError(why)


class HandLinks:
    """Connections that the test makes; `reached` has the addresses that were asked for at each call of `reach`."""

    last_failure: str | None = None

    def __init__(self) -> None:
        self.reached: list[list[str]] = []
        self.is_closed = False

    def reach(self, addresses: Collection[str]) -> None:
        self.reached.append([*addresses])

    async def listen(self, last_address: str) -> str:
        raise AssertionError("a broker does not listen before it is admitted")

    def close(self) -> None:
        self.is_closed = True


def answer(response: join.Response) -> memoryview:
    data = b"".join(join.API.encode_response(0, response, 0))[FRAME_SIZE_BYTES:]
    return memoryview(b"".join(frames.encode_response(0, [data])))


def test_the_brokers_that_a_broker_without_a_controller_hears_are_asked_too() -> None:
    """
    The broker that was asked may be lost before there is a controller, so its peers are asked as well.  Addresses that
    are named again change nothing.  The first admission ends it.
    """
    world, links, admitted = BrokerWorld(), HandLinks(), []
    machine = world._machine(lambda _: links)
    joining = Joining(machine, ["h:1"], DirectoryId(bytes(16)), None, 1, admitted.append)
    joining.begin()
    first, second = HandLink(), HandLink()
    joining.linked(first)
    waits = join.Response(error_code=errors.NOT_CONTROLLER, live_peers=["h:2", "h:1", "h:3"])

    joining.received(first, answer(waits))
    joining.received(first, answer(waits))
    joining.lost(first, "gone")
    joining.linked(second)
    joining.received(second, answer(join.Response(cluster_id="c", broker_id=4)))

    assert [["h:1"], ["h:1", "h:2", "h:3"]] == links.reached
    assert (1, [4], True) == (second.sent, [it.broker_id for it in admitted], links.is_closed)

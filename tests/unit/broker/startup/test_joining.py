"""A broker with an empty directory asks one broker after the other to be admitted."""

from collections.abc import Collection, Sequence

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.broker.connection.peer_requests import FRAME_SIZE_BYTES
from tidemill.broker.startup.joining import TELL_MS, Joining
from tidemill.model import errors
from tidemill.model.broker_id import DirectoryId
from tidemill.peer import frame as frames
from tidemill.peer import join
from tidemill.peer.hello import Hello
from tidemill.peer.link import Buffer
from tidemill.peer.session import KEY_DIFFERS


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
    last_refusal: str | None = None

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


REFUSED_KEY = f"no link to h:1: the other end does not know this broker's cluster key: {KEY_DIFFERS}"
FOUND = "if there is no cluster yet, start its first broker without tidemill.join"


@pytest.mark.parametrize(
    ("refusal", "failure", "problem", "fix"),
    [
        (None, "no link to h:2: refused", "no link to h:2: refused", FOUND),
        (REFUSED_KEY, "no link to h:2: refused", "does not know this broker's cluster key", KEY_DIFFERS),
        (None, f"no link to h:1: closed; {KEY_DIFFERS}", "no link to h:1: closed", KEY_DIFFERS),
        ("no link to h:1: upgrade it", "no link to h:2: refused", "no link to h:1: upgrade it", None),
    ],
)
def test_a_cluster_is_founded_only_where_nothing_answers(
    refusal: str | None, failure: str, problem: str, fix: str | None
) -> None:
    """
    With another cluster key, there is a cluster: a second one would only hide the wrong setting.  The refusal is told
    although another address has failed since.
    """
    world, links = BrokerWorld(), HandLinks()
    links.last_refusal, links.last_failure = refusal, failure
    Joining(world._machine(lambda _: links), ["h:1", "h:2"], DirectoryId(bytes(16)), None, 1, pytest.fail).begin()

    world.pass_time(TELL_MS)

    (line,) = [line for line in world.events if "waiting to join" in line]
    assert problem in line
    assert fix in line if fix is not None else "fix=" not in line
    assert (FOUND in line) is (fix == FOUND)

"""What the controller tells the console about brokers and moves, and what is shown without it."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.unit.console.console_world import HOSTILE, View, broker, get, shard
from tests.unit.console.test_queue_pages import cells
from tidemill.client.failures import BrokerUnreachable
from tidemill.console import rebalance_reader
from tidemill.console.cluster_reader import ClusterReader
from tidemill.console.rebalance_reader import NOT_READ, BrokerState, MoveRow, Rebalance, report, state_of
from tidemill.model import errors
from tidemill.peer.cluster_report import API, Request, Response

SetAnswer = Callable[[Rebalance], None]


class Reader:
    """A reader to which the test gives the answer."""

    def __init__(self, answer: Response | BrokerUnreachable) -> None:
        self.answer = answer
        self.asked: list[tuple[int, Any, int]] = []

    def ask(self, broker_id: int, api: Any, request: Request, *, version: int) -> Response:
        self.asked.append((broker_id, api, version))
        if isinstance(self.answer, BrokerUnreachable):
            raise self.answer
        return self.answer


def reported(answer: Response | BrokerUnreachable) -> Rebalance:
    return report(cast("ClusterReader", Reader(answer)), 1)


def reported_broker(broker_id: int, **changes: Any) -> Response.Broker:
    known: dict[str, Any] = {"presence": "active", "drain": "none", "is_live": True, "is_ready": True}
    numbers = dict.fromkeys(("disk_total", "disk_used", "cpu", "leaders", "bytes", "not_in_sync", "heard_by"), 0)
    known |= numbers | {"rack": None, "silent_ms": 0, "live_ms": 31_000, "replicas": 4}
    return Response.Broker(broker_id=broker_id, **(known | changes))


def move(shard_id: int, **changes: Any) -> Response.Move:
    known: dict[str, Any] = {"reason": "replace", "voters": [1, 2], "replicas": [1, 3], "previous": [1, 2]}
    return Response.Move(shard_id=shard_id, **(known | {"size": 1_000, "remaining": 250} | changes))


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> SetAnswer:
    """Return a function that sets what the controller answers."""

    def set_answer(found: Rebalance) -> None:
        monkeypatch.setattr(rebalance_reader, "report", lambda reader, asked: found)

    return set_answer


def test_the_serving_broker_is_asked_for_the_controllers_report() -> None:
    """
    Any broker forwards the request, so a page needs no connection to the controller.
    """
    reader = Reader(Response(status="idle"))

    found = report(cast("ClusterReader", reader), 7)

    assert ([(7, API, 0)], "idle", None) == (reader.asked, found.status, found.problem)


def test_states_and_moves_are_those_of_the_report() -> None:
    """
    A broker has the words of `tidemill cluster brokers`; a move the part that is copied.
    """
    gone = {"presence": "gone", "is_live": False, "silent_ms": 400_000, "live_ms": 0}
    response = Response(
        status="working",
        brokers=[reported_broker(1), reported_broker(2, **gone), reported_broker(3, drain="all", replicas=0)],
        moves=[move(41), move(42, replicas=[2, 1], remaining=0)],
        moves_count=7,
        refusals=[Response.Refusal(what="shard 8", sentence="shard 8: no place")],
    )

    found = reported(response)

    assert {1: (True, "active"), 2: (False, "gone 6m"), 3: (True, "active, empty")} == found.states
    assert [(41, 75, 250), (42, None, 0)] == [(it.shard_id, it.copied, it.remaining) for it in found.moves]
    assert ("working", 7, ["shard 8: no place"]) == (found.status, found.moves_count, found.refusals)


def test_the_reason_of_a_stalled_plan_is_shown_once() -> None:
    """
    The reason is one of the refusals of the plan.
    """
    refusals = [Response.Refusal(what=what, sentence=f"{what} says no") for what in ("cluster", "shard 8")]

    found = reported(Response(status="stalled", why="cluster says no", refusals=refusals))

    assert ("cluster says no", ["shard 8 says no"]) == (found.why, found.refusals)


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (BrokerUnreachable("broker 1 is down"), "broker 1 is down"),
        (Response(error_code=errors.NOT_CONTROLLER, error_message="no controller has answered"), "no controller has"),
        (Response(error_code=errors.UNSUPPORTED_VERSION), "UNSUPPORTED_VERSION"),
    ],
)
def test_a_controller_that_cannot_be_asked_is_a_problem(outcome: Any, why: str) -> None:
    """
    Nothing is shown as if it were known: an empty list of moves would mean that nothing moves.
    """
    found = reported(outcome)

    assert found.status is None and not found.states and found.problem is not None and why in found.problem


def test_a_broker_outside_of_its_cluster_asks_nobody() -> None:
    """
    A broker that was removed is in no image; its page comes all the same.
    """
    assert "not in the cluster" in str(rebalance_reader.read(View(brokers=[broker(2)])).problem)


def test_the_serving_broker_has_the_last_word_about_what_it_hears() -> None:
    """
    The controller's report may be half a minute old, and the controller may be the one that is cut off.  So a broker is
    never shown as active while this broker does not hear it.
    """
    found = Rebalance(status="idle", states={2: BrokerState(True, "active"), 3: BrokerState(False, "gone 6m")})
    down = broker(2, is_up=False, silent_ms=12_000)
    back = broker(3, presence="gone")

    assert (False, "down 12s") == state_of(down, found)
    assert (True, "gone, back") == state_of(back, found)
    assert (False, "gone 6m") == state_of(broker(3, is_up=False), found)
    assert (True, "active") == state_of(broker(2), found)


def test_without_the_controller_brokers_have_their_recorded_states() -> None:
    """
    Presence and drain are in the metadata, which every broker has.  Whether a broker still has a vote with replicas
    that are planned elsewhere is not, so none is called empty: it would be stopped, and may have the only copy.
    """
    rows = [
        broker(1, drain="leaders"),
        broker(2, presence="silent", is_up=False, silent_ms=70_000),
        broker(3, is_up=False),
        broker(4, drain="all", carried=0),
        broker(5, is_up=False, kafka=None),
    ]

    words = [state_of(row, NOT_READ).words for row in rows]

    assert [
        "active, draining leaders",
        "silent 1m",
        "active, heard by others only",
        "active, draining all",
        "down",
    ] == words


@pytest.mark.parametrize("path", ["/", "/brokers"])
def test_both_pages_show_states_and_moves(answer: SetAnswer, path: str) -> None:
    """
    A move has the topic of its shard, why and where it goes, and how far it is.  What contains names is text.
    """
    moving = MoveRow(shard_id=41, reason="drain", voters=(1, 2), replicas=(3, 1), copied=75, remaining=250)
    fading = MoveRow(shard_id=99, reason="user", voters=(), replicas=(2,), copied=None, remaining=0)
    states = {1: BrokerState(True, "active"), 2: BrokerState(True, "active, draining all")}
    answer(
        Rebalance(status="stalled", why=HOSTILE, states=states, moves=[moving, fading], moves_count=9, refusals=["no"])
    )
    view = View(shard(40), shard(41, topic="jobs"), brokers=[broker(1), broker(2)])

    text = get(view, path).text

    assert ["jobs", "drain", "1, 2", "3, 1", "75 %", "250 B"] == cells(text, "move-41")[-6:]
    assert ["–", "user", "–", "2", "–", "0 B"] == cells(text, "move-99")[-6:]
    assert "active, draining all" in cells(text, "broker-2")[1]
    assert "7 moves more" in text and "9 moves under way" in text
    assert ">stalled<" in text and "<p>no</p>" in text and "<img src=x" not in text


def test_the_overview_shows_the_first_moves(answer: SetAnswer) -> None:
    """
    The page of brokers has more of them, and neither has all of thousands.
    """
    moves = [MoveRow(shard_id=n, reason="count", voters=(1,), replicas=(2,), copied=0, remaining=9) for n in range(60)]
    answer(Rebalance(status="working", moves=moves, moves_count=60))

    shown = [get(View(), path).text.count('<tr id="move-') for path in ("/", "/brokers")]

    assert [5, 50] == shown


def test_a_page_without_moves_has_no_table_of_them(answer: SetAnswer) -> None:
    answer(Rebalance(status="off", why="tidemill.rebalance.enable is false"))

    text = get(View(), "/brokers").text

    assert "tidemill.rebalance.enable is false. No moves under way." in text and "<caption>Moves" not in text


def test_a_page_says_that_the_controller_did_not_answer() -> None:
    """
    Without an answer the page comes, with the brokers, and does not say that nothing moves.
    """
    text = get(View(brokers=[broker(1), broker(2, is_up=False, silent_ms=12_000)]), "/brokers").text

    assert "The controller cannot be asked" in text and "No moves" not in text
    assert "down" in cells(text, "broker-2")[1]

"""`--wait`: until nothing is left, and not longer than the user says."""

from collections.abc import Iterator
from typing import Any

import pytest

from tidemill.cli import cluster_waits
from tidemill.cli.cluster_waits import (
    Awaited,
    leaders_left,
    led_alone,
    majority_left,
    move_left,
    replicas_left,
    sync_left,
    untold_text,
    wait,
)
from tidemill.cli.failure import Failed
from tidemill.client.broker_http import NotReady, Refused

LASTING = "; if that lasts, `tidemill cluster rebalance` says why"
DRAIN = Awaited(
    doing="draining broker 3",
    undone="broker 3 is not empty",
    goes_on="The drain goes on without this command",
    again="cluster drain 3",
)


class Answers:
    """A fake cluster: what each path is answered with."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def get(self, path: str, **_: Any) -> Any:
        return self.answers[path.rpartition("/")[2].replace("-", "_")]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_waits, "POLL_S", 0.001)


def test_without_the_option_the_command_does_not_wait() -> None:
    wait(None, lambda: pytest.fail("it asked"), DRAIN, http=None)


def test_it_ends_when_nothing_is_left_also_after_errors_that_pass(capsys: pytest.CaptureFixture[str]) -> None:
    def left() -> Iterator[str | None]:
        yield "2 shards left"
        yield None

    steps = left()
    refused = [NotReady("no controller")]

    def next_left() -> str | None:
        if refused:
            raise refused.pop()
        return next(steps)

    wait("1m", next_left, DRAIN, http=None)

    assert next(steps, "asked to the end") == "asked to the end"
    assert "draining broker 3: no controller" in capsys.readouterr().err


def test_a_refusal_ends_it() -> None:
    """Waiting would not help."""

    def left() -> str:
        raise Refused("broker 9 is not in this cluster")

    with pytest.raises(Refused, match="broker 9"):
        wait("1m", left, DRAIN, http=None)


@pytest.mark.parametrize(("http", "option"), [(None, ""), ("[::1]:9080", " --http '[::1]:9080'")])
def test_it_gives_up_and_says_what_is_left_that_it_goes_on_and_how_to_look_again(http: str | None, option: str) -> None:
    """The next command reaches the same cluster as this one."""
    with pytest.raises(Failed) as failed:
        wait("5ms", lambda: "2 shards left", DRAIN, http=http)

    assert failed.value.message == (
        "broker 3 is not empty after 5ms: 2 shards left.  The drain goes on without this command; wait again with "
        f"`tidemill cluster drain 3 --wait 5ms{option}`"
    )


def test_ctrl_c_ends_the_wait_only_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    def left() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wait("1m", left, DRAIN, http=None)

    said = "The drain goes on without this command; wait again with `tidemill cluster drain 3 --wait 1m`"
    assert ["", said] == capsys.readouterr().err.splitlines()


def test_a_drain_of_leaders_ends_with_the_last_one() -> None:
    rows = [{"shard_id": 1, "replicas": [3, 1]}]
    answers = Answers(shards={"shards": rows, "next_after": None})

    assert "it leads 1 shard" == leaders_left(answers, 3)  # type: ignore[arg-type]
    rows.clear()
    assert leaders_left(answers, 3) is None  # type: ignore[arg-type]


def test_a_drain_of_leaders_does_not_wait_for_a_shard_that_no_other_broker_has() -> None:
    """A plan of restarts would wait at every topic of one replica until its time is over."""
    rows = [{"shard_id": 5, "replicas": [3]}, {"shard_id": 6, "replicas": [1]}]
    answers = Answers(shards={"shards": rows, "next_after": None})

    assert "it leads 1 shard" == leaders_left(answers, 3)  # type: ignore[arg-type]
    assert [5] == led_alone(answers, 3)  # type: ignore[arg-type]
    rows.pop()
    assert leaders_left(answers, 3) is None  # type: ignore[arg-type]


def test_a_drain_ends_when_nothing_is_planned_there_and_nothing_is_still_a_voter() -> None:
    broker = {"broker_id": 3, "replicas": 0}
    move = {"voters": [1, 2, 3], "replicas": [1, 2, 4], "remaining": 2_048}
    answers = Answers(
        rebalance={"brokers": [broker], "status": "working", "why": None},
        moves={"moves": [move], "count": 1, "untold": 0},
    )

    assert "1 shard left, 1 under way, 2.00 KiB to copy" == replicas_left(answers, 3)  # type: ignore[arg-type]
    answers.answers["moves"] = {"moves": [move | {"voters": [1, 2, 4]}], "count": 1, "untold": 0}
    assert replicas_left(answers, 3) is None  # type: ignore[arg-type]
    broker["replicas"] = 2
    assert "2 shards left" in (replicas_left(answers, 3) or "")  # type: ignore[arg-type]
    answers.answers["rebalance"] |= {"status": "off", "why": "it was switched off"}
    assert (replicas_left(answers, 3) or "").endswith("; re-placement is off: it was switched off")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({}, None),
        ({"is_live": False}, "it is not live"),
        ({"is_ready": False}, "it is not ready to lead"),
        ({"presence": "gone"}, "it is gone until it has been back for a while"),
        ({"not_in_sync": 2}, "2 shards not in sync"),
        ({"not_in_sync": 1, "untold": 1}, f"the leaders of 1 shard have not told the controller yet{LASTING}"),
        (
            {"not_in_sync": 3, "untold": 2},
            f"1 shard not in sync, the leaders of 2 shards have not told the controller yet{LASTING}",
        ),
    ],
)
def test_a_broker_is_back_when_all_it_carries_is_in_sync(changes: dict[str, Any], left: str | None) -> None:
    row = {"broker_id": 3, "presence": "active", "is_live": True, "is_ready": True, "not_in_sync": 0, "untold": 0}
    row |= changes

    assert left == sync_left(Answers(rebalance={"brokers": [row]}), 3)  # type: ignore[arg-type]


def test_a_broker_that_the_controller_does_not_know_is_not_back() -> None:
    assert "it is not live" == sync_left(Answers(rebalance={"brokers": []}), 3)  # type: ignore[arg-type]


def test_what_keeps_a_broker_from_stopping_is_named_in_part() -> None:
    findings = [{"kind": "majority", "sentence": f"shard {number}: why"} for number in range(5)]

    assert "shard 0: why; shard 1: why; shard 2: why; and 2 more" == majority_left(
        Answers(may_stop={"may_stop": False, "findings": findings}),  # type: ignore[arg-type]
        3,
    )
    assert majority_left(Answers(may_stop={"may_stop": True, "findings": []}), 3) is None  # type: ignore[arg-type]


def test_a_broker_that_some_topic_never_can_do_without_is_not_waited_for() -> None:
    """A plan of restarts would stop there for ever, at a topic of one or two replicas."""
    findings = [{"kind": "majority", "sentence": "shard 1: late"}, {"kind": "replicas", "sentence": "shard 2: too few"}]

    with pytest.raises(Refused, match=r"without a pause, .*: shard 2: too few\.  Give their topics three"):
        majority_left(Answers(may_stop={"may_stop": False, "findings": findings}), 3)  # type: ignore[arg-type]


def test_nothing_has_ended_before_a_new_controller_knows_all_voters() -> None:
    """A leader that has not reported yet may lead a shard that is under way."""
    answers = Answers(
        rebalance={"brokers": [{"broker_id": 3, "replicas": 0}]},
        moves={"moves": [], "count": 0, "untold": 1, "untold_shards": [4]},
    )

    assert f"the voters of shard 4 are not known yet{LASTING}" == replicas_left(answers, 3)  # type: ignore[arg-type]
    assert f"the voters of shard 4 are not known yet{LASTING}" == move_left(answers, 4)  # type: ignore[arg-type]


def test_a_move_does_not_wait_for_other_shards_that_have_no_leader() -> None:
    """One of them may have lost its only disk, and then no leader ever tells its voters."""
    found: dict[str, Any] = {"moves": [], "count": 0, "untold": 1, "untold_shards": [4]}

    assert move_left(Answers(moves=found), 5) is None  # type: ignore[arg-type]
    assert "shards 4 and 1 more" in (move_left(Answers(moves=found | {"untold": 2}), 5) or "")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("untold", "shards", "which"),
    [(2, [4, 7], "shards 4, 7"), (7, [*range(1, 8)], "shards 1, 2, 3, 4, 5 and 2 more"), (3, [], "3 shards")],
)
def test_the_shards_that_a_new_controller_does_not_know_are_named_in_part(
    untold: int, shards: list[int], which: str
) -> None:
    """An older controller tells only how many they are."""
    assert f"the voters of {which} are not known yet{LASTING}" == untold_text(
        {"untold": untold, "untold_shards": shards}
    )


def test_a_move_has_ended_when_it_is_not_under_way() -> None:
    move = {"shard_id": 4, "voters": [1, 2, 3], "remaining": 512}

    assert "voters [1, 2, 3], 512 B to copy" == move_left(Answers(moves={"moves": [move], "count": 1, "untold": 0}), 4)  # type: ignore[arg-type]
    assert move_left(Answers(moves={"moves": [move], "count": 1, "untold": 0}), 5) is None  # type: ignore[arg-type]


def test_nothing_has_ended_that_may_be_among_the_moves_that_are_not_listed() -> None:
    """A report lists a thousand moves, and a user can plan more."""
    move = {"shard_id": 4, "voters": [1, 2], "replicas": [1, 2, 4], "remaining": 512}
    broker = {"broker_id": 3, "replicas": 0}
    answers = Answers(rebalance={"brokers": [broker]}, moves={"moves": [move], "count": 3, "untold": 0})

    assert "2 shards more under way than are listed" == move_left(answers, 5)  # type: ignore[arg-type]
    assert "2 shards more under way than are listed" == replicas_left(answers, 3)  # type: ignore[arg-type]


def test_a_replica_that_is_planned_elsewhere_between_two_requests_is_not_overlooked() -> None:
    """Otherwise a drain would end while the broker is still a voter of its last shard."""
    planned = {"brokers": [{"broker_id": 3, "replicas": 1}], "status": "working", "why": None}
    moving = {"shard_id": 4, "voters": [1, 2, 3], "replicas": [1, 2, 4], "remaining": 512}
    states = [
        {"rebalance": planned, "moves": {"moves": [], "count": 0, "untold": 0}},
        {
            "rebalance": planned | {"brokers": [{"broker_id": 3, "replicas": 0}]},
            "moves": {"moves": [moving], "count": 1, "untold": 0},
        },
    ]

    class Changing:
        """A fake cluster that plans the replica elsewhere after the first request."""

        def get(self, path: str, **_: Any) -> Any:
            return (states.pop(0) if len(states) > 1 else states[0])[path.rpartition("/")[2]]

    assert "left, 1 under way" in (replicas_left(Changing(), 3) or "")  # type: ignore[arg-type]

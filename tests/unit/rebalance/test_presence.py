"""Presence: who is silent, gone, or back."""

import pytest

from tests.unit.rebalance.modelled_cluster import ModelledCluster
from tidemill.model.broker_state import Presence
from tidemill.rebalance.plan import Status
from tidemill.rebalance.policy import Policy
from tidemill.rebalance.presence import LOOKED_AT_MAX, PresenceDecision, decide_presence


def presence(cluster: ModelledCluster) -> PresenceDecision:
    return decide_presence(cluster.image, cluster.view, cluster.policy, cluster.index)


def changes(cluster: ModelledCluster) -> list[tuple[int, Presence]]:
    return [(change.broker_id, change.presence) for change in presence(cluster).changes]


@pytest.mark.parametrize(
    ("before", "silent_ms", "after"),
    [
        (Presence.ACTIVE, 59_999, None),
        (Presence.ACTIVE, 60_000, Presence.SILENT),
        (Presence.ACTIVE, 900_000, Presence.SILENT),
        (Presence.SILENT, 299_999, None),
        (Presence.SILENT, 300_000, Presence.GONE),
        (Presence.GONE, 900_000, None),
    ],
)
def test_a_broker_is_silent_after_a_minute_and_gone_after_five(
    before: Presence, silent_ms: int, after: Presence | None
) -> None:
    """Each state leads to the next one only, so that the log has every step."""
    cluster = ModelledCluster([None] * 4)
    cluster.lose(2, before, silent_ms)

    assert ([] if after is None else [(2, after)]) == changes(cluster)


@pytest.mark.parametrize("before", [Presence.SILENT, Presence.GONE])
@pytest.mark.parametrize(("live_ms", "is_back"), [(29_999, False), (30_000, True)])
def test_a_broker_is_back_when_it_was_live_for_30_seconds_without_a_gap(
    before: Presence, live_ms: int, is_back: bool
) -> None:
    """A broker that comes and goes must not make the plans come and go."""
    cluster = ModelledCluster([None] * 4)
    cluster.bring_back(2)
    cluster.set(2, presence=before, live_ms=live_ms, silent_ms=400_000)

    assert ([(2, Presence.ACTIVE)] if is_back else []) == changes(cluster)


@pytest.mark.parametrize("before", [Presence.ACTIVE, Presence.SILENT])
def test_a_broker_that_another_live_broker_hears_is_not_silent(before: Presence) -> None:
    """Otherwise, a controller with a bad network would re-place a healthy cluster."""
    cluster = ModelledCluster([None] * 4)
    cluster.lose(2, before, 900_000)
    cluster.set(2, heard_by=1)

    assert [] == changes(cluster)


@pytest.mark.parametrize("before", [Presence.ACTIVE, Presence.SILENT])
def test_a_broker_that_the_controller_hears_is_not_silent(before: Presence) -> None:
    """A broker that has just come back, after five minutes, is not recorded as gone in that moment."""
    cluster = ModelledCluster([None] * 4)
    cluster.lose(2, before, 900_000)
    cluster.set(2, is_live=True, live_ms=10_000)

    assert [] == changes(cluster)


def test_brokers_gone_in_bulk_stall_until_an_operator_decides() -> None:
    """If more than one broker and more than 10 % are silent, a switch has failed, and copies would fill up the rest."""
    twenty, nineteen = ModelledCluster([None] * 20), ModelledCluster([None] * 19)
    for cluster in (twenty, nineteen):
        cluster.add(1, 2, 3)
        cluster.add(1, 4, 5)
        cluster.lose(2, Presence.SILENT, 300_000)
        cluster.lose(4, Presence.SILENT, 250_000)

    decision, plan = presence(nineteen), nineteen.decide()

    assert [(2, Presence.GONE)] == changes(twenty)
    assert () == decision.changes
    assert decision.stalled == (
        "broker 2 may be gone, but 2 of 19 brokers are silent, more than 10 %; bring them back, or run "
        "`tidemill cluster replace`"
    )
    assert (Status.STALLED, decision.stalled) == (plan.status, plan.refusals[0].sentence)


def test_a_whole_rack_that_is_silent_stalls_too() -> None:
    """A rack fails as one, by its switch or its power supply, even if it has few of the brokers."""
    cluster = ModelledCluster(["a"] * 2 + ["b"] * 30 + ["c"])
    cluster.lose(1, Presence.SILENT, 300_000)
    assert [(1, Presence.GONE)] == changes(cluster)

    cluster.lose(2, Presence.SILENT, 300_000)
    assert [] == changes(cluster)
    assert "all brokers of rack a are silent" in (presence(cluster).stalled or "")


def test_one_broker_of_three_is_replaced() -> None:
    """A single broker is never a bulk, although it is a third of the brokers and all of its rack."""
    cluster = ModelledCluster(["a", "b", "c"])
    cluster.lose(2, Presence.SILENT, 300_000)

    assert [(2, Presence.GONE)] == changes(cluster)


def test_a_broker_whose_replicas_were_all_replaced_counts_no_more() -> None:
    """A broker that died last month, and was never unregistered, does not make the next one a bulk."""
    cluster = ModelledCluster([None] * 5)
    cluster.add(1, 2, 3)
    cluster.decide()
    cluster.lose(5, Presence.GONE, 900_000)
    cluster.lose(3, Presence.SILENT, 300_000)
    assert [(3, Presence.GONE)] == changes(cluster)

    cluster.add(5, 2, 1)
    cluster.decide()
    assert [] == changes(cluster)


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("racks", [[None] * 5, ["a", "a", "b", "b", "b"]])
def test_a_broker_with_nothing_that_can_be_replaced_counts_no_more(racks: list[str | None], is_told: bool) -> None:
    """
    The only replica of a topic waits for its broker for ever.  That must not keep the next one from being replaced; a
    copy that can be made or goes on is another matter.  To a new controller, no leader tells the members of that shard.
    """
    cluster = ModelledCluster(racks)
    lost = cluster.add(1)
    if not is_told:
        cluster.forget(lost)
    cluster.add(2, 3, 4)
    cluster.lose(1, Presence.GONE, 900_000)
    cluster.lose(2, Presence.SILENT, 300_000)
    cluster.decide()

    assert [(2, Presence.GONE)] == changes(cluster)
    assert Status.STALLED is not cluster.decide().status
    found = cluster.add(1, 3, 4)
    if not is_told:
        cluster.forget(found)
    cluster.decide()
    assert [] == changes(cluster)


def test_a_broker_with_very_many_replicas_counts_whatever_they_are() -> None:
    """The planner looks at some of them only, once a second."""
    cluster = ModelledCluster([None] * 5)
    for _ in range(LOOKED_AT_MAX + 1):
        cluster.add(1)
    cluster.lose(1, Presence.GONE, 900_000)
    cluster.lose(2, Presence.SILENT, 300_000)
    cluster.decide()

    assert [] == changes(cluster)


def test_a_stall_does_not_keep_brokers_from_coming_back() -> None:
    """The way out of a stall is that the brokers come back."""
    cluster = ModelledCluster([None] * 5)
    cluster.lose(2, Presence.SILENT, 300_000)
    cluster.lose(3, Presence.SILENT, 300_000)
    cluster.bring_back(4)
    cluster.set(4, presence=Presence.SILENT)

    assert [(4, Presence.ACTIVE)] == changes(cluster)


def test_a_stalled_cluster_moves_nothing_for_balance() -> None:
    """While many brokers are away, only what an operator wants moves, and what is needed."""
    cluster = ModelledCluster([None] * 6, Policy())
    for _ in range(20):
        cluster.add(1, 2)
    assert cluster.decide().steps
    cluster.lose(5, Presence.SILENT, 300_000)
    cluster.lose(6, Presence.SILENT, 300_000)

    plan = cluster.decide()

    assert ((), Status.STALLED) == (plan.steps, plan.status)


def test_sentences_have_numbers() -> None:
    """A record of a change can be explained."""
    cluster = ModelledCluster([None] * 4)
    cluster.lose(2, Presence.SILENT, 302_000)
    cluster.set(3, presence=Presence.SILENT, live_ms=34_000)

    sentences = [change.sentence for change in presence(cluster).changes]

    assert sentences == [
        "broker 2 silent for 5 min 2 s, heard by 0 of 3",
        "broker 3 is back: live for 34 s without a gap",
    ]

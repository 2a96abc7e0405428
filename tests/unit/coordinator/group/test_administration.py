"""DescribeGroups, ListGroups and DeleteGroups."""

from tests.unit.coordinator.group.group_world import RANGE, World
from tidemill.coordinator.group.requests import ListGroups
from tidemill.model import errors


def listed(world, **filters):
    groups = world.ask(ListGroups(waiter=world.waiter(), **filters)).groups
    return {group.group_id: (group.protocol_type, group.state, group.type) for group in groups}


def test_a_stable_group_is_described_with_metadata_and_assignments():
    """The coordinator returns the metadata and the assignments unchanged."""
    world = World()
    (member,) = world.static("desk")

    described = world.describe()

    assert (described.state, described.protocol_type, described.protocol_name) == ("Stable", "consumer", "range")
    (shown,) = described.members
    assert (shown.member_id, shown.instance_id) == (member.member_id, "desk")
    assert (shown.client_id, shown.client_host) == ("app", "/127.0.0.1")
    assert (shown.metadata, shown.assignment) == (RANGE[0][1], b"\x00")


def test_a_group_that_is_not_stable_shows_no_metadata():
    """
    While a group is not stable, its description has no metadata of members: no protocol has been selected yet, so it is
    not known which metadata applies.
    """
    world = World()
    world.join()

    described = world.describe()

    assert (described.state, described.protocol_name) == ("PreparingRebalance", "")
    assert described.members[0].metadata == b""


def test_an_unknown_group_is_dead():
    """From v6 on, an unknown group is also reported as not found (KIP-1043)."""
    world = World()

    described = world.describe("other")

    assert (described.state, described.error_code) == ("Dead", errors.GROUP_ID_NOT_FOUND)
    assert described.error_message == "Group other not found."


def test_the_filters_of_list_groups_ignore_case():
    """Without a filter all groups are listed."""
    world = World()
    world.join(group_id="reads")
    world.commit("simple")

    assert listed(world) == {
        "reads": ("consumer", "PreparingRebalance", "Classic"),
        "simple": ("", "Empty", "Classic"),
    }
    assert listed(world, states=("empty", "STABLE")).keys() == {"simple"}
    assert listed(world, types=("CLASSIC",), states=("preparingrebalance",)).keys() == {"reads"}
    assert listed(world, types=("consumer",)) == {}


def test_deleting_a_group_deletes_its_offsets():
    """Tombstones in the log make the deletion permanent."""
    world = World()
    world.commit("done")
    world.join(group_id="busy")

    codes = world.delete("done", "busy", "other")
    world.restart()

    assert codes == (errors.NONE, errors.NON_EMPTY_GROUP, errors.GROUP_ID_NOT_FOUND)
    assert world.state("done") == "Dead"
    assert world.fetch_all("done") == {}
    assert world.state("busy") == "Empty"

"""JoinGroup over the wire: behaviour that depends on the version of the request."""

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.group_member import FLIGHTS, STATIC, GroupMember
from tidemill.model import errors
from tidemill.wire.messages import describe_groups, join_group


def test_a_new_member_gets_its_id_in_a_first_response() -> None:
    """
    From v4 on, the first response only assigns a member id: a client has not joined until it repeats the request with
    this id (KIP-394).
    """
    member = GroupMember(BrokerWorld(STATIC))

    told = member.later(member.joining(), 4)
    member.member_id = told.member_id
    joined = member.later(member.joining(), 4)

    assert (errors.MEMBER_ID_REQUIRED, errors.NONE) == (told.error_code, joined.error_code)
    assert (told.member_id, 1) == (joined.member_id, joined.generation_id)


@pytest.mark.parametrize("version", [0, 1, 3])
def test_an_old_client_joins_with_one_request(version: int) -> None:
    """
    Before v4, a client joins with a single request, whose response also contains its new member id.
    """
    member = GroupMember(BrokerWorld(STATIC))

    joined = member.later(member.joining(), version)

    assert (errors.NONE, "range", 1) == (joined.error_code, joined.protocol_name, joined.generation_id)
    assert [(joined.leader, FLIGHTS)] == [(it.member_id, it.metadata) for it in joined.members]


def test_only_the_leader_gets_the_members() -> None:
    """
    Only the group's leader needs to know the members, in order to assign partitions.  In the newest version, the
    response also contains the protocol type.
    """
    world = BrokerWorld(STATIC)
    first, second = GroupMember(world).stabilize(), GroupMember(world, instance_id="two")
    parked = second.join()

    rejoined = first.join()
    joined = second.client.answer(join_group.API, 9)

    assert (None, 2, "consumer") == (parked, rejoined.generation_id, rejoined.protocol_type)
    assert (first.member_id, []) == (joined.leader, list(joined.members))
    assert {first.member_id, joined.member_id} == {it.member_id for it in rejoined.members}
    assert [None, "two"] == sorted((it.group_instance_id for it in rejoined.members), key=str)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, errors.INVALID_GROUP_ID),
        ({"session_timeout_ms": 1}, errors.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, errors.UNKNOWN_MEMBER_ID),
        ({"protocols": []}, errors.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
@pytest.mark.parametrize("version", [0, 5, 9])
def test_a_refusal_can_be_encoded_in_every_version(version: int, fields: dict[str, object], code: int) -> None:
    """
    A refusal contains no protocol name: the field is null, or empty before v7.
    """
    member = GroupMember(BrokerWorld(STATIC))

    refused = member.later(member.joining(**fields), version)

    assert (code, -1) == (refused.error_code, refused.generation_id)
    assert (None if version >= 7 else "") == refused.protocol_name


def test_the_session_timeout_is_bounded() -> None:
    """
    group.min.session.timeout.ms and group.max.session.timeout.ms bound the session timeout.
    """
    bounds = {"group.min.session.timeout.ms": "100", "group.max.session.timeout.ms": "200"}
    world = BrokerWorld({**STATIC, **bounds})

    codes = []
    for session_timeout_ms in (99, 100, 200, 201):
        member = GroupMember(world, f"g{session_timeout_ms}")
        codes.append(member.later(member.joining(session_timeout_ms=session_timeout_ms), 3).error_code)

    wrong = errors.INVALID_SESSION_TIMEOUT
    assert [wrong, errors.NONE, errors.NONE, wrong] == codes


def test_a_member_has_its_client_id_and_host() -> None:
    """
    The host is in Kafka's format, with a slash before the address.
    """
    world = BrokerWorld(STATIC)
    GroupMember(world).stabilize()

    (group,) = world.ask(describe_groups.Request(groups=["g"])).groups

    assert [("test", "/127.0.0.1")] == [(it.client_id, it.client_host) for it in group.members]

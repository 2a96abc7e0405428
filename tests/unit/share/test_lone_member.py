"""Names of consumers without a session."""

from tidemill.share.lone_member import consumer_of, lease_of, member_without_session, shown_name


def test_each_receive_request_has_a_name_of_the_same_consumer() -> None:
    first, second = member_without_session("me", 1), member_without_session("me", 255)

    assert first != second
    assert (1, 255) == (lease_of(first), lease_of(second))
    assert consumer_of(first) == consumer_of(second) == consumer_of(member_without_session("me"))
    assert "me" == shown_name(first) == shown_name(member_without_session("me"))


def test_a_member_with_a_session_is_another_consumer() -> None:
    assert ("me", "me", 0) == (consumer_of("me"), shown_name("me"), lease_of("me"))
    assert consumer_of("me") != consumer_of(member_without_session("me"))

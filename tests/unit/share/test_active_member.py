"""The one member of an exclusive share."""

from tidemill.share.active_member import ActiveMember


def test_the_first_member_that_acquires_is_the_active_one() -> None:
    """
    Only the active member is admitted, until it leaves or lets a lock expire; other members change nothing.
    """
    active = ActiveMember()
    assert active.admits("a") and active.admits("b")

    active.acquired("a")
    active.failed("b")

    assert active.admits("a") and not active.admits("b")
    active.failed("a")
    assert active.admits("b")


def test_a_silent_member_is_replaced() -> None:
    """
    A member that is idle for the whole time is replaced, once.  A moment in which it is not idle begins a new wait.
    """
    active = ActiveMember()
    active.acquired("a")

    def is_silent(now: int, *, is_idle: bool = True) -> bool:
        return active.is_silent(is_idle=is_idle, now=now, patience_ms=100)

    assert not is_silent(0)
    assert not is_silent(99)
    assert not is_silent(100, is_idle=False)
    assert not is_silent(101)
    assert not is_silent(200)
    assert active.name == "a"
    assert is_silent(201)
    assert active.name is None
    assert not is_silent(400)

"""`Pending`: a value that arrives later."""

import gc
import weakref

import pytest

from tidemill.shard.pending import Pending


class Response:
    pass


class Caller:
    def __init__(self, pending: Pending[Response]) -> None:
        self.pending = pending

    def answered(self, response: Response) -> None:
        assert self.pending.is_done


def test_a_response_is_kept_only_by_its_receiver() -> None:
    """
    The memory of a large response is freed with its connection, without waiting for Python's cycle collector.
    """
    gc.disable()
    try:
        pending: Pending[Response] = Pending()
        caller = Caller(pending)
        pending.then(caller.answered)
        response = Response()
        references = weakref.ref(response), weakref.ref(caller)
        pending.complete(response)

        del response, pending, caller

        assert [None, None] == [it() for it in references]
    finally:
        gc.enable()


def test_a_failure_is_reported_once() -> None:
    """
    The callback for failures gets the error, the callback for values is not called, and a later value is ignored.
    """
    pending: Pending[str] = Pending()
    values: list[str] = []
    errors: list[str] = []
    pending.then(values.append, lambda error: errors.append(str(error)))

    pending.fail(ValueError("x"))
    pending.complete("late")

    assert ([], ["x"], "x") == (values, errors, str(pending.failure))


def test_a_failure_without_a_callback_is_raised() -> None:
    """
    A failure without a callback is raised, because an unexpected error must not disappear silently.
    """
    pending: Pending[str] = Pending()
    pending.fail(ValueError("x"))

    with pytest.raises(ValueError, match="x"):
        pending.then(lambda _: None)


def test_a_value_that_came_first_is_passed_to_a_later_callback() -> None:
    """
    A value that comes first is passed to a later callback, because a handler may complete before its caller calls
    `then`.
    """
    pending: Pending[int] = Pending()
    pending.complete(7)
    values: list[int] = []

    pending.then(values.append)

    assert [7] == values

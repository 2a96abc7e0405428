"""An answer that is not there yet."""

import gc
import weakref

from tidemill.shard.pending import Pending


class Response:
    pass


class Asked:
    def __init__(self, pending: Pending) -> None:
        self.pending = pending

    def told(self, response: object) -> None:
        assert self.pending.is_done


def test_a_response_is_kept_by_nobody_but_who_got_it() -> None:
    """
    Large answers leave memory with their connection, not at the next walk of the collector.
    """
    gc.disable()
    try:
        pending = Pending()
        asked = Asked(pending)
        pending.then(asked.told)
        response = Response()
        kept = weakref.ref(response), weakref.ref(asked)
        pending.complete(response)

        del response, pending, asked

        assert [None, None] == [it() for it in kept]
    finally:
        gc.enable()


def test_a_failure_is_told_once() -> None:
    """
    As None to who asked, with the error beside it.
    """
    pending = Pending()
    told: list[object] = []
    pending.then(told.append)

    pending.fail(ValueError("x"))
    pending.complete("late")

    assert ([None], "x") == (told, str(pending.failure))

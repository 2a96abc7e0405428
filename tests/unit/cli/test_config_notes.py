"""Notes about configuration keys without effect, including those of a topic that not every broker knows yet."""

from collections.abc import Sequence

import pytest

from tidemill.cli import config_notes
from tidemill.cli.config_admin import TOPIC, Resource
from tidemill.cli.config_notes import print_notes
from tidemill.cli.failure import Failed

ORDERS = Resource(TOPIC, "orders")


class Admin:
    """A stand-in for `ConfigAdmin` that knows the topic only after `failures` requests."""

    def __init__(self, failures: int) -> None:
        self._failures = failures

    def without_effect(self, resource: Resource, keys: Sequence[str]) -> dict[str, str]:
        self._failures -= 1
        if self._failures >= 0:
            raise Failed("topic 'orders': it does not exist", name="UNKNOWN_TOPIC_OR_PARTITION")
        return {"flush.ms": "because"}


def test_a_new_topic_is_asked_for_until_the_broker_knows_it(capsys: pytest.CaptureFixture[str]) -> None:
    """
    The command repeats its request, because the broker that receives it may learn of a new topic later than the broker
    that has created the topic.
    """
    print_notes(Admin(2), ORDERS, ["flush.ms"], as_json=False, is_new=True)  # type: ignore[arg-type]

    assert "tidemill: note: flush.ms is accepted without effect: because\n" == capsys.readouterr().err


@pytest.mark.parametrize(("is_new", "wait_s"), [(False, 5.0), (True, 0.0)])
def test_a_topic_that_stays_unknown_is_an_error(monkeypatch: pytest.MonkeyPatch, is_new: bool, wait_s: float) -> None:
    """
    A topic that is not new must be known immediately, and a new one must become known within the wait.
    """
    monkeypatch.setattr(config_notes, "VISIBLE_WAIT_S", wait_s)

    with pytest.raises(Failed):
        print_notes(Admin(1_000), ORDERS, ["flush.ms"], as_json=False, is_new=is_new)  # type: ignore[arg-type]

"""The handlers of the APIs are found by the names of their modules."""

from pathlib import Path

from tidemill.broker import handlers
from tidemill.broker.connection.dispatch import CONTROLLER_HANDLERS, HANDLERS
from tidemill.wire.api import ALL


def test_every_module_of_the_package_handles_an_api() -> None:
    """
    A module with a misspelled name would handle nothing.
    """
    (folder,) = handlers.__path__
    modules = {path.stem for path in Path(folder).glob("*.py")} - {"__init__"}

    assert modules == {ALL[key].name for key in HANDLERS}


def test_the_controller_handles_what_a_broker_cannot_decide() -> None:
    """
    A module with a function `refused` belongs to an API that only the controller handles.
    """
    assert {
        "alter_configs",
        "create_partitions",
        "create_topics",
        "delete_topics",
        "describe_quorum",
        "elect_leaders",
        "incremental_alter_configs",
    } == {ALL[key].name for key in CONTROLLER_HANDLERS}

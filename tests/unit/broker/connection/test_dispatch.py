"""Each API is handled by the module that is named after it."""

from pathlib import Path

from tidemill.broker import handlers
from tidemill.broker.connection.dispatch import CONTROLLER_HANDLERS, HANDLERS, OFFERED, UNLISTED
from tidemill.wire.api import ALL


def test_every_module_of_the_package_handles_an_api() -> None:
    """
    Every module of the package `handlers` has the name of an API.  A module with a misspelled name would never handle a
    request.
    """
    (folder,) = handlers.__path__
    modules = {path.stem for path in Path(folder).glob("*.py")} - {"__init__"}

    assert modules == {(ALL | UNLISTED)[key].name for key in HANDLERS}


def test_apis_of_tidemill_are_not_listed() -> None:
    """
    ApiVersions lists Kafka's APIs only: clients of Kafka do not know the others.
    """
    assert OFFERED.keys() | UNLISTED.keys() == HANDLERS.keys()
    assert {10_008, 10_015, 10_016, 10_018, 10_019, 10_020, 10_021, 10_022} == UNLISTED.keys()
    assert OFFERED.keys() <= ALL.keys()


def test_the_controller_handles_what_a_broker_cannot_decide() -> None:
    """
    An API is handled only by the controller if its module has a function `refused`.
    """
    assert {
        "alter_configs",
        "alter_partition_reassignments",
        "cluster_operation",
        "cluster_report",
        "create_partitions",
        "create_topics",
        "delete_topics",
        "describe_quorum",
        "elect_leaders",
        "incremental_alter_configs",
        "list_partition_reassignments",
        "unregister_broker",
        "update_features",
    } == {(ALL | UNLISTED)[key].name for key in CONTROLLER_HANDLERS}

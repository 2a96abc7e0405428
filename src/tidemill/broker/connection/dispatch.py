"""Dispatch: the handler of each API.  ApiVersions advertises exactly these APIs."""

from types import ModuleType
from typing import Final

from tidemill.broker.connection.forwarding import Handler, forwarded
from tidemill.broker.handlers import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)
from tidemill.wire.api import ALL
from tidemill.wire.schema import Api

_MODULES: Final[tuple[ModuleType, ...]] = (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)

_BY_NAME: Final = {api.name: api for api in ALL.values()}

# Only the controller handles these APIs; other brokers forward their requests to it.
_CONTROLLER_APIS: Final = (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_quorum,
    elect_leaders,
    incremental_alter_configs,
)


def _api_of(module: ModuleType) -> Api:
    return _BY_NAME[module.__name__.rpartition(".")[2]]


def _handler_of(module: ModuleType) -> Handler:
    is_forwarded = module in _CONTROLLER_APIS
    return forwarded(_api_of(module), module.handle, module.refused) if is_forwarded else module.handle


HANDLERS: Final[dict[int, Handler]] = {_api_of(module).key: _handler_of(module) for module in _MODULES}
"""The handler of each API key.  A handler returns a response, or a `Pending` that completes with one."""

CONTROLLER_HANDLERS: Final[dict[int, Handler]] = {_api_of(module).key: module.handle for module in _CONTROLLER_APIS}
"""The handlers of requests that other brokers forward while this broker is the controller."""

OFFERED: Final[dict[int, Api]] = {key: ALL[key] for key in HANDLERS}
"""The APIs that ApiVersions lists."""

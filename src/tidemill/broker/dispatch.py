"""Which handler answers which API: all that works, and nothing else is advertised."""

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

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
    describe_topic_partitions,
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
from tidemill.broker.request_context import RequestContext
from tidemill.wire.api import ALL
from tidemill.wire.schema import Api

Handler = Callable[[Any, RequestContext], object]

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
    describe_topic_partitions,
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

HANDLERS: Final[dict[int, Handler]] = {
    _BY_NAME[module.__name__.rpartition(".")[2]].key: module.handle for module in _MODULES
}
"""API key → handler: the one whose file has the API's name.  It gives a response, or a `Pending` that will."""

OFFERED: Final[dict[int, Api]] = {key: ALL[key] for key in HANDLERS}
"""What ApiVersions lists."""

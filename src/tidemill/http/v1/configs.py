"""Sets the configuration of topics and groups, which the controller decides."""

from collections.abc import Mapping
from typing import Final

from tidemill.http.v1.brokers import Brokers
from tidemill.http.v1.kafka_errors import check
from tidemill.metadata.metadata_records import ConfigResource
from tidemill.wire.messages import incremental_alter_configs

_SET: Final = 0
_DELETE: Final = 1


async def alter_configs(
    brokers: Brokers,
    resource: ConfigResource,
    configs: Mapping[str, str | None],
    about: str,
    *,
    validate_only: bool = False,
) -> None:
    """
    Set values; None restores a default.  Raise Refused, and change nothing, if one of them is not permitted.  With
    `validate_only`, change nothing in any case.
    """
    asked = incremental_alter_configs.Request.Resource
    changes = [
        asked.Config(name=name, config_operation=_DELETE if value is None else _SET, value=value)
        for name, value in configs.items()
    ]
    request = incremental_alter_configs.Request(
        resources=[asked(resource_type=resource.type, resource_name=resource.name, configs=changes)],
        validate_only=validate_only,
    )
    response = await brokers.ask_here(incremental_alter_configs.API, request)
    for answer in response.responses:
        check(answer.error_code, answer.error_message, about)

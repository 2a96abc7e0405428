"""`/v1/cluster/level`: raise the feature level of the cluster.  Any broker answers; the controller decides."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tidemill.http.v1.calls import Call, Route
from tidemill.http.v1.kafka_errors import check
from tidemill.http.v1.rights import ALTER_CLUSTER
from tidemill.metadata.feature_levels import FEATURE_NAME
from tidemill.wire.messages import update_features

LEVEL_MAX: Final = (1 << 15) - 1


class LevelBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: Annotated[int, Meta(ge=1, le=LEVEL_MAX)]
    dry_run: Annotated[bool, Meta(description="Only check whether the level can be raised.")] = False


class Level(msgspec.Struct, frozen=True):
    before: int
    level: int


async def raise_level(call: Call) -> Level:
    body: LevelBody = call.body
    before = call.brokers.image.feature_level
    update = update_features.Request.Update(feature=FEATURE_NAME, max_version_level=body.level)
    request = update_features.Request(feature_updates=[update], validate_only=body.dry_run)
    response = await call.brokers.ask_here(update_features.API, request)
    check(response.error_code, response.error_message, f"feature level {body.level}")
    return Level(before, body.level)


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/cluster/level",
        access=ALTER_CLUSTER,
        handler=raise_level,
        body=LevelBody,
        example={"level": 2, "dry_run": True},
        response=Level,
        summary="Raise the feature level of the cluster, which is never lowered again.",
    ),
)

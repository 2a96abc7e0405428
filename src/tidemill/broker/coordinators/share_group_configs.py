"""The configurations of share groups according to the cluster image."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tidemill.metadata.image import ClusterImage
from tidemill.metadata.metadata_records import GROUP_RESOURCE, ConfigResource
from tidemill.model import errors
from tidemill.model.config_resolution import NOTHING, BrokerLayers, broker_int
from tidemill.model.dead_letters import is_redrive
from tidemill.model.offset_reset import EARLIEST
from tidemill.model.share_group_config import ShareGroupConfig, compile_share_group_config
from tidemill.share.acknowledgement import AcknowledgementRefused

LOCK_MAX: Final = "group.share.max.record.lock.duration.ms"


class ShareGroupConfigs:
    """The configurations by group id, compiled once per image, because every heartbeat and every fetch needs one."""

    def __init__(self, image: Callable[[], ClusterImage], layers: Callable[[], BrokerLayers]) -> None:
        self._current_image = image
        self._layers = layers
        self._image: ClusterImage | None = None
        self._compiled: dict[str, ShareGroupConfig] = {}

    def of(self, group_id: str) -> ShareGroupConfig:
        image = self._current_image()
        if image is not self._image:
            self._image, self._compiled = image, {}
        found = self._compiled.get(group_id)
        if found is None:
            overrides = image.configs.get(ConfigResource(GROUP_RESOURCE, group_id), NOTHING)
            found = compile_share_group_config(overrides, self._layers())
            if is_redrive(group_id):
                found = replace(found, offset_reset=EARLIEST)
            self._compiled[group_id] = found
        return found

    def checked_lock_ms(self, lock_ms: int) -> int:
        """
        Return the duration of a lock that a consumer asks for.

        Raise AcknowledgementRefused if it is not positive, or longer than the broker permits.
        """
        most = broker_int(self._layers(), LOCK_MAX)
        if not 1 <= lock_ms <= most:
            raise AcknowledgementRefused(
                errors.INVALID_REQUEST, f"a lock of {lock_ms} ms: a lock lasts 1 to {most} ms ({LOCK_MAX})"
            )
        return lock_ms

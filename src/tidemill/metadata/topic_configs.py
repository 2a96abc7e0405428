"""A broker's cache of compiled topic configurations.  A configuration is recompiled only after its settings change."""

from collections.abc import Mapping

from tidemill.metadata.image import ClusterImage
from tidemill.model.broker_id import BrokerId
from tidemill.model.config_resolution import NOTHING, BrokerLayers
from tidemill.model.topic_config import TopicConfig, compile_topic_config


class TopicConfigs:
    """Compiled topic configurations.  `of` is cheap enough to be called for every request.

    Successive images share the mapping objects of unchanged settings, so comparing identities detects every change.
    """

    def __init__(self, broker_id: BrokerId, static: Mapping[str, str]) -> None:
        self._broker_id = broker_id
        self._static = static
        self._layers = BrokerLayers(static=static)
        self._default = compile_topic_config(NOTHING, self._layers)
        self._compiled: dict[str, tuple[Mapping[str, str], TopicConfig]] = {}  # only topics with settings of their own
        self._image: ClusterImage | None = None

    def of(self, image: ClusterImage, topic: str) -> TopicConfig:
        if image is not self._image:
            self._adopt(image)
        overrides = image.topic_overrides(topic)
        if not overrides:
            return self._default
        known = self._compiled.get(topic)
        if known is not None and known[0] is overrides:
            return known[1]
        compiled = compile_topic_config(overrides, self._layers)
        self._compiled[topic] = (overrides, compiled)
        return compiled

    def _adopt(self, image: ClusterImage) -> None:
        layers = image.broker_layers(self._broker_id, self._static)
        if layers.dynamic is not self._layers.dynamic or layers.dynamic_default is not self._layers.dynamic_default:
            self._compiled.clear()
            self._default = compile_topic_config(NOTHING, layers)
        self._layers = layers
        if self._image is not None and self._image.topics is not image.topics:
            for gone in [name for name in self._compiled if name not in image.topics]:
                del self._compiled[gone]
        self._image = image

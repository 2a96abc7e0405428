"""What the HTTP door sees of a broker."""

from tidemill.broker.broker import Broker
from tidemill.telemetry.prometheus import PrometheusText
from tidemill.wire.api import ALL


class ObservedBroker:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._text = PrometheusText(broker.metrics, {key: api.name for key, api in ALL.items()})

    @property
    def is_live(self) -> bool:
        return self._broker.is_live

    @property
    def is_ready(self) -> bool:
        return self._broker.is_ready

    def metrics_text(self) -> str:
        return self._text.render()

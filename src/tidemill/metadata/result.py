"""What the controller decided."""

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from tidemill.metadata.image import ClusterImage
from tidemill.metadata.metadata_records import Record
from tidemill.model.broker_id import BrokerId
from tidemill.model.config_resolution import BrokerLayers
from tidemill.model.entropy import Entropy
from tidemill.model.internal_topics import INTERNAL_TOPICS, InternalTopic

Response = TypeVar("Response", covariant=True)


@dataclass(frozen=True, slots=True)
class Result(Generic[Response]):
    """
    Append `records` to the metadata log, all or none; when they are committed, log the `warnings`, whole sentences,
    and give the `response`.
    """

    records: tuple[Record, ...]
    response: Response
    warnings: tuple[str, ...] = ()


class Problem(NamedTuple):
    """Why one thing of a command was refused: a code of `model.errors`, and a sentence for the user."""

    error_code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionContext:
    """What a decision stands on: the image as of the last appended record, this broker's settings, and chance."""

    image: ClusterImage
    layers: BrokerLayers
    entropy: Entropy
    live: frozenset[BrokerId] | None = None  # None: all
    internal_topics: tuple[InternalTopic, ...] = INTERNAL_TOPICS

    def is_live(self, broker_id: BrokerId) -> bool:
        return self.live is None or broker_id in self.live

"""The inputs and the result of one of the controller's decisions."""

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
    The result of a decision.  The host appends either all of the `records` to the metadata log or none.  When they are
    committed, it logs the `warnings`, which are complete sentences, and sends the `response`.
    """

    records: tuple[Record, ...]
    response: Response
    warnings: tuple[str, ...] = ()


class Problem(NamedTuple):
    """Why one item of a command is refused: an error code from `model.errors`, and a sentence for the user."""

    error_code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionContext:
    """The inputs to a decision, apart from the command.  `image` includes every appended record, committed or not."""

    image: ClusterImage
    layers: BrokerLayers
    entropy: Entropy
    live: frozenset[BrokerId] | None = None  # brokers that are alive; None: all are
    internal_topics: tuple[InternalTopic, ...] = INTERNAL_TOPICS

    def is_live(self, broker_id: BrokerId) -> bool:
        return self.live is None or broker_id in self.live

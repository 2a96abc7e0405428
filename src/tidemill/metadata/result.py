"""What the controller decided."""

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from tidemill.metadata.image import ClusterImage
from tidemill.metadata.metadata_records import Record
from tidemill.model.config_resolution import BrokerLayers
from tidemill.model.entropy import Entropy

Response = TypeVar("Response", covariant=True)


@dataclass(frozen=True, slots=True)
class Result(Generic[Response]):
    """Append `records` to the metadata log, all or none; give `response` when they are committed."""

    records: tuple[Record, ...]
    response: Response


class Problem(NamedTuple):
    """Why one thing of a command was refused: a code of `model.errors`, and a sentence for the user."""

    error_code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """What a decision stands on: the image as of the last appended record, this broker's settings, and chance."""

    image: ClusterImage
    layers: BrokerLayers
    entropy: Entropy

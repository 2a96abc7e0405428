"""One row of the option tables of the source and the sink, from which `docs/spark.md` is generated."""

from typing import NamedTuple


class Option(NamedTuple):
    name: str  # as it is documented; Spark passes names in lower case
    type: str
    default: str  # empty: there is no default
    meaning: str

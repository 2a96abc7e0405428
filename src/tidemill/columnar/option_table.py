"""One row of the option tables of source and sink, from which `docs/spark.md` is generated."""

from typing import NamedTuple


class Option(NamedTuple):
    name: str  # in the documented spelling; Spark passes names in lower case
    type: str
    default: str  # empty: no default
    meaning: str

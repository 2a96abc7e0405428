"""Finds pipelines: each subpackage of `pipelines`, except `frame`, declares PIPELINE in its module `pipeline`."""

import difflib
from importlib import import_module
from pathlib import Path
from typing import Any

from tidemill.spark.pipelines.frame.pipeline import Pipeline


def names() -> list[str]:
    """Return the names of all pipelines, in alphabetical order."""
    folders = {path.parent.name for path in Path(__file__).parent.glob("*/pipeline.py")}
    return sorted(folders - {"frame"})


def load(name: str) -> Pipeline[Any]:
    """Import a pipeline.  Raise ValueError for an unknown name."""
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(known)}"
        raise ValueError(f"pipeline {name} is unknown: {hint}")
    pipeline: Pipeline[Any] = import_module(f"tidemill.spark.pipelines.{name}.pipeline").PIPELINE
    return pipeline

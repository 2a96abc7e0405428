"""The registry of pipelines."""

import subprocess
import sys
from importlib import import_module

import pytest

from tidemill.spark import pipelines
from tidemill.spark.pipelines import registry
from tidemill.spark.pipelines.frame.option import options_of
from tidemill.spark.pipelines.function import PipelineFunction


@pytest.mark.parametrize("name", registry.names())
def test_a_pipeline_has_the_name_of_its_folder_and_of_its_function(name: str) -> None:
    """
    The name of a pipeline is also the name of its folder, its function and its command.
    """
    pipeline = registry.load(name)

    assert (name, name) == (pipeline.name, getattr(pipelines, name).pipeline.name)
    assert pipeline.summary[0].islower() and not pipeline.summary.endswith(".")  # commands print it after the name
    assert pipeline.checks.endswith(".") and pipeline.example.startswith("--")
    assert options_of(pipeline.options)


@pytest.mark.parametrize(("name", "hint"), [("audti", "did you mean audit"), ("xyz", "choose one of ")])
def test_an_unknown_pipeline_is_refused(name: str, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The error for an unknown name suggests the most similar name or, if there is none, lists all names.
    """
    monkeypatch.setattr(registry, "names", lambda: ["archive", "audit"])

    with pytest.raises(ValueError, match=f"pipeline {name} is unknown: {hint}"):
        registry.load(name)


def test_a_function_stays_when_its_folder_is_imported() -> None:
    """
    Importing the package of a pipeline does not replace the function of the same name.
    """
    import_module("tidemill.spark.pipelines.frame")
    module = type(pipelines)("tidemill.spark.pipelines.archive")
    pipelines.archive = module  # type: ignore[assignment]  # what Python's import does

    assert isinstance(pipelines.archive, PipelineFunction)


def test_the_pipelines_are_listed_without_spark() -> None:
    """
    Listing the pipelines and their options does not import pyspark or pyarrow, which would take about a second.
    """
    program = (
        "import sys; from tidemill.spark.pipelines import registry\n"
        "for name in registry.names(): registry.load(name)\n"
        "print(sorted({'pyspark', 'pyarrow', 'numpy', 'pandas'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "[]\n" == done.stdout

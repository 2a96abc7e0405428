"""
Pipelines on Spark, each a function here and a command, `tidemill pipeline run NAME`.  Entry point: `registry`.

    from tidemill.spark import pipelines

    report = pipelines.audit(spark, topic="flights", target="copy", state="audit-state", bootstrap_servers="HOST:9092")

A function imports its pipeline when it is first called.  `frame` contains the code that all pipelines share.
"""

import sys
from types import ModuleType
from typing import Any

from tidemill.spark.pipelines.function import PipelineFunction

archive = PipelineFunction("archive")
audit = PipelineFunction("audit")
backfill = PipelineFunction("backfill")
replay = PipelineFunction("replay")
snapshot = PipelineFunction("snapshot")
stats = PipelineFunction("stats")


class _Package(ModuleType):
    """
    Keeps a pipeline's function as the package attribute when Python imports the subpackage of the same name.

    Python sets an imported subpackage as an attribute of its parent package, which would replace the function.  Imports
    from the subpackage do not need this attribute.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and isinstance(self.__dict__.get(name), PipelineFunction)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

"""Selects the implementation of `due_scan`: compiled if there is a build of the current source, else plain Python.

from tidemill.timer.native import due_scan
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tidemill.batches.compiled_build import compiled_build

_NAME = "tidemill.timer.due_scan"

if TYPE_CHECKING:
    from tidemill.timer import due_scan as due_scan
else:
    due_scan = compiled_build(_NAME) or import_module(_NAME)

"""Build configuration that `pyproject.toml` cannot express: optional compiled modules, named after their sources."""

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).resolve().parent))

from tools.build_extension import extensions

setup(ext_modules=extensions("build/cython"))

"""Compile `batches/scan.py` in place if there is no build of its current source, and remove stale builds.

    python tools/build_extension.py [--require] [--force]

The tool is quick enough to run every time, as `make` does.  Without a C compiler it prints a message, and the module
runs as plain Python; `--require` makes that an error.  `setup.py` imports `extensions` from this file.
"""

import argparse
import os
import shlex
import shutil
import sys
import tempfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent.parent
BATCHES = ROOT / "src" / "tidemill" / "batches"
sys.path.insert(0, str(ROOT / "src"))

from tidemill.batches.scan_build import COMPILED_PREFIX, compiled_name  # noqa: E402


def extensions(build_dir: str) -> list[Extension]:
    """Return `scan.py` as an optional C extension, which is named after a hash of its source."""
    from Cython.Build import cythonize

    source = BATCHES / "scan.py"
    wanted = Extension(
        f"tidemill.batches.{compiled_name(source.read_bytes())}",
        [source.relative_to(ROOT).as_posix()],
        # -O3 vectorizes the copies of keys and values.  The caller's options come last, so they count.
        extra_compile_args=["-g0", "-O3", *shlex.split(os.environ.get("CFLAGS", ""))],
    )
    modules: list[Extension] = cythonize([wanted], build_dir=build_dir, quiet=True)  # type: ignore[no-untyped-call]
    for module in modules:
        module.optional = True  # set here, because cythonize drops it
    return modules


def built() -> list[Path]:
    """Return the existing builds for this interpreter, of any version of the source."""
    return sorted(path for path in BATCHES.glob(f"{COMPILED_PREFIX}*") if path.name.endswith(EXTENSION_SUFFIXES[0]))


def build(*, force: bool = False) -> Path | None:
    """Return the build of the current source, after compiling it if needed, or None if it cannot be compiled."""
    name = compiled_name((BATCHES / "scan.py").read_bytes())
    for path in built():
        if force or path.name != name + EXTENSION_SUFFIXES[0]:
            path.unlink()
    if built():
        return built()[0]
    if any(shutil.which(compiler) for compiler in ("cc", "gcc", "clang")):
        _compile()
    return next(iter(built()), None)


def _compile() -> None:
    with tempfile.TemporaryDirectory(prefix="tidemill-build-") as scratch:
        command = build_ext(Distribution({"name": "tidemill", "ext_modules": extensions(scratch)}))
        command.build_lib = f"{scratch}/lib"
        command.build_temp = f"{scratch}/temp"
        command.ensure_finalized()
        command.run()
        for path in Path(scratch, "lib").rglob(f"{COMPILED_PREFIX}*"):
            shutil.copy2(path, BATCHES / path.name)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--require", action="store_true", help="fail when it cannot be built")
    options.add_argument("--force", action="store_true", help="build again even if a build exists")
    wanted = options.parse_args()
    path = build(force=wanted.force)
    if path is None:
        print(
            "batches/scan.py could not be compiled (no C compiler?): it runs as plain Python, slowly", file=sys.stderr
        )
        return 1 if wanted.require else 0
    print(f"batches/scan.py is compiled: {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

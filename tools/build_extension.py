"""Compile the modules of `COMPILED_MODULES` in place if their current sources have no builds, and remove stale builds.

    python tools/build_extension.py [--require] [--force]

The tool is quick enough to run every time, as `make` does.  Without a C compiler it prints a message, and the modules
run as plain Python; `--require` makes that an error.  `setup.py` imports `extensions` from this file.
"""

import argparse
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src"
sys.path.insert(0, str(SOURCES))

from tidemill.batches.compiled_build import COMPILED_MODULES, build_name, build_prefix  # noqa: E402


def source_of(module: str) -> Path:
    return (SOURCES / module.replace(".", "/")).with_suffix(".py")


def extensions(build_dir: str, modules: Sequence[str] = COMPILED_MODULES) -> list[Extension]:
    """Return modules as optional C extensions, which are named after hashes of their sources."""
    from Cython.Build import cythonize

    wanted = [
        Extension(
            build_name(module, source_of(module).read_bytes()),
            [source_of(module).relative_to(ROOT).as_posix()],
            # -O3 vectorizes the copies of bytes.  The caller's options come last, so they count.
            extra_compile_args=["-g0", "-O3", *shlex.split(os.environ.get("CFLAGS", ""))],
        )
        for module in modules
    ]
    found: list[Extension] = cythonize(wanted, build_dir=build_dir, quiet=True)  # type: ignore[no-untyped-call]
    for extension in found:
        extension.optional = True  # set here, because cythonize drops it
    return found


def built(module: str) -> list[Path]:
    """Return the existing builds of a module for this interpreter, of any version of the source."""
    prefix = build_prefix(module).rpartition(".")[2]
    paths = source_of(module).parent.glob(f"{prefix}*")
    return sorted(path for path in paths if path.name.endswith(EXTENSION_SUFFIXES[0]))


def build(*, force: bool = False) -> dict[str, Path | None]:
    """Return the build of each module's source, after compiling it if needed, or None if it cannot be compiled."""
    for module in COMPILED_MODULES:
        name = build_name(module, source_of(module).read_bytes()).rpartition(".")[2]
        for path in built(module):
            if force or path.name != name + EXTENSION_SUFFIXES[0]:
                path.unlink()
    missing = [module for module in COMPILED_MODULES if not built(module)]
    if missing and any(shutil.which(compiler) for compiler in ("cc", "gcc", "clang")):
        _compile(missing)
    return {module: next(iter(built(module)), None) for module in COMPILED_MODULES}


def _compile(modules: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="tidemill-build-") as scratch:
        command = build_ext(Distribution({"name": "tidemill", "ext_modules": extensions(scratch, modules)}))
        command.build_lib = f"{scratch}/lib"
        command.build_temp = f"{scratch}/temp"
        command.ensure_finalized()
        command.run()
        library = Path(scratch, "lib")
        for path in library.rglob(f"*{EXTENSION_SUFFIXES[0]}"):
            shutil.copy2(path, SOURCES / path.relative_to(library))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--require", action="store_true", help="fail when a module cannot be built")
    options.add_argument("--force", action="store_true", help="build again even if builds exist")
    wanted = options.parse_args()
    builds = build(force=wanted.force)
    for module, path in builds.items():
        source = source_of(module).relative_to(ROOT)
        if path is None:
            print(f"{source} could not be compiled (no C compiler?): it runs as plain Python, slowly", file=sys.stderr)
        else:
            print(f"{source} is compiled: {path.relative_to(ROOT)}")
    return 1 if wanted.require and None in builds.values() else 0


if __name__ == "__main__":
    sys.exit(main())

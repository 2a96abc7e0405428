"""
The source distribution and the wheel are complete, and the installed package runs on a machine without a compiler.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final
from zipfile import ZipFile

import pytest

from tidemill.batches.compiled_build import COMPILED_MODULES, build_prefix

ROOT: Final = Path(__file__).resolve().parents[3]
FOREIGN: Final = ("TIDEMILL_", "PYTHON", "CC", "CXX")
ENVIRONMENT: Final = {name: text for name, text in os.environ.items() if not name.startswith(FOREIGN)} | {
    "CFLAGS": "-O0"  # compile in 3 s instead of 16
}
BUILD_FILES: Final = {"LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py", "tools/build_extension.py"}
IS_COMPILER_THERE: Final = (
    any(map(shutil.which, ("cc", "gcc", "clang"))) and Path(sysconfig.get_path("include"), "Python.h").exists()
)
NOT_COMPILED: Final = "compiled extension not found, parsing records in Python"

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is not a clone, so no file is tracked")


def run(*command: object, cwd: Path, stdin: str = "", environment: Mapping[str, str] = ENVIRONMENT) -> str:
    """Run a command to completion, require that it succeeds, and return what it printed."""
    finished = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert 0 == finished.returncode, finished.stdout[-4_000:] + finished.stderr[-4_000:]
    return finished.stdout


def tracked(*folders: str) -> set[str]:
    """Return the files that git tracks and that exist, below these folders or everywhere."""
    names = run("git", "ls-files", "-z", "--", *folders, cwd=ROOT).split("\0")
    return {name for name in names if name and (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both distributions from a copy of the tracked files, and return their directory."""
    clean = tmp_path_factory.mktemp("clean")
    for name in tracked():
        (clean / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, clean / name)
    run(sys.executable, "-m", "build", "--no-isolation", cwd=clean)
    return clean / "dist"


@pytest.fixture(scope="module")
def sdist(built: Path) -> Path:
    return next(built.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return next(built.glob("*.whl"))


class Fresh:
    """A fresh environment, without a compiler on its path."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        venv.create(directory / "venv")
        self.environment = ENVIRONMENT | {"PATH": str(directory / "venv" / "bin")}

    def install(self, wheel: Path, *options: str) -> None:
        python = self.directory / "venv" / "bin" / "python"
        pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "install")
        run(*pip, "--only-binary", ":all:", *options, wheel, cwd=self.directory, environment=self.environment)

    def replace(self, wheel: Path) -> None:
        """Install another wheel of the same version, which has the same dependencies."""
        self.install(wheel, "--no-deps", "--force-reinstall")

    def tidemill(self, *arguments: str, stdin: str = "") -> str:
        program = self.directory / "venv" / "bin" / "tidemill"
        return run(program, *arguments, cwd=self.directory, stdin=stdin, environment=self.environment)

    def use_broker(self, data: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """
        Start a broker, send it a record, read the record, and stop the broker.  Return the record and the broker's
        events.
        """
        program = self.directory / "venv" / "bin" / "tidemill"
        options = ("--data", data, "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--json")
        with (self.directory / f"{data}.log").open("w+") as log:
            broker = subprocess.Popen(
                [program, "dev", *options],
                cwd=self.directory,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            with broker:
                try:
                    assert broker.stdout is not None
                    bootstrap = ("--bootstrap", json.loads(broker.stdout.readline())["kafka"])
                    self.tidemill("topics", "create", "orders", *bootstrap)
                    self.tidemill("produce", "orders", *bootstrap, stdin="1 cup\n")
                    read = self.tidemill("consume", "orders", "--format", "json", "--max", "1", *bootstrap)
                finally:
                    broker.terminate()
            assert 0 == broker.returncode
            log.seek(0)
            return json.loads(read), [json.loads(line) for line in log]


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """Return a fresh environment in which the wheel and its dependencies are installed."""
    fresh = Fresh(tmp_path_factory.mktemp("fresh"))
    fresh.install(wheel)
    return fresh


def test_the_source_distribution_has_what_a_build_needs(sdist: Path) -> None:
    """
    The source distribution contains every tracked file of the packages and of their build, and no tests.
    """
    with tarfile.open(sdist) as archive:
        files = [PurePosixPath(member.name) for member in archive if member.isfile()]
    contents = {str(path.relative_to(path.parts[0])) for path in files}

    assert set() == (tracked("src") | BUILD_FILES) - contents
    assert [] == [name for name in contents if name.startswith("tests/")]


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    """
    The wheel contains every tracked file of the packages, including files that are not Python, the metadata with the
    licence, the extensions if there is a compiler, and nothing else.
    """
    with ZipFile(wheel) as archive:
        contents = set(archive.namelist())
    packages = {name.removeprefix("src/") for name in tracked("src")}
    metadata = {name for name in contents if name.split("/")[0].endswith(".dist-info")}
    prefixes = tuple(build_prefix(module).replace(".", "/") for module in COMPILED_MODULES)
    extensions = {name for name in contents if name.startswith(prefixes)}

    assert "tidemill/py.typed" in packages
    assert set() == packages - contents
    assert set() == contents - packages - metadata - extensions
    assert [] == [name for name in contents if name.split("/")[0] in ("tests", "tools", "benchmarks", "examples")]
    assert 1 == len([name for name in metadata if name.endswith("/licenses/LICENSE")])
    assert (len(COMPILED_MODULES) if IS_COMPILER_THERE else 0) == len(extensions)


def test_an_installed_wheel_runs_without_a_compiler(fresh: Fresh, wheel: Path) -> None:
    """
    The command is on the path of the environment, and a broker accepts a record and returns it to a consumer.
    """
    fresh.replace(wheel)

    assert "Usage: tidemill" in fresh.tidemill("--help")

    record, events = fresh.use_broker("from-wheel")

    assert "1 cup" == record["value"]
    assert IS_COMPILER_THERE == (NOT_COMPILED not in [event["event"] for event in events])


def test_a_source_distribution_is_installed_without_a_compiler(fresh: Fresh, sdist: Path) -> None:
    """
    The build succeeds without the extension.  The broker then logs that the extension is missing, and works.
    """
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", "plain")
    pip = (sys.executable, "-m", "pip", "wheel")
    run(*pip, *options, sdist, cwd=fresh.directory, environment=fresh.environment)
    plain = next((fresh.directory / "plain").glob("*.whl"))
    with ZipFile(plain) as archive:
        assert [] == [name for name in archive.namelist() if name.endswith(".so")]
    fresh.replace(plain)

    record, events = fresh.use_broker("from-source")

    assert "1 cup" == record["value"]
    assert [event["fix"] for event in events if event["event"] == NOT_COMPILED]

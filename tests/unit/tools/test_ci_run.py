"""The entry point of continuous integration installs what some tests need.

The tests replace the commands that it runs with stubs.  Each stub appends its command line to `commands`.  The real
`PATH` is not searched.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / ".ci" / "run"
TOOLS = ("fusermount3", "strace", "promtool", "chromium", "ip", "curl", "faketime")
PACKAGES = "fuse3 strace prometheus chromium iproute2 curl faketime"
INSTALL = "noninteractive apt-get install -y --no-install-recommends"
UPDATE, TEST = "noninteractive apt-get update", "make test"
SUCCEEDS, FAILS = "exit 0", "exit 100"
NEEDS_UPDATE = '[ "$1" != update ] || : >updated; [ -e updated ]'


class Machine:
    """A machine on which `tools` are installed; `apt_get` is a shell command, or None if there is no apt-get."""

    def __init__(
        self, folder: Path, *, tools: tuple[str, ...] = (), user: int = 0, apt_get: str | None = SUCCEEDS, make: int = 0
    ) -> None:
        self.folder = folder
        (folder / "dirname").symlink_to(shutil.which("dirname") or "")
        self._stub("id", f"echo {user}")
        self._stub("make", f'echo "make $*" >>commands; exit {make}')
        for tool in tools:
            self._stub(tool, SUCCEEDS)
        if apt_get is not None:
            self._stub("apt-get", f'echo "$DEBIAN_FRONTEND apt-get $*" >>commands; {apt_get}')

    def _stub(self, name: str, command: str) -> None:
        stub = self.folder / name
        stub.write_text(f"#!/bin/sh\ncd '{self.folder}'\n{command}\n")
        stub.chmod(0o755)

    def run(self) -> tuple[list[str], str, int]:
        """Run the script, and return the commands it ran, its error output and its exit status."""
        bash = shutil.which("bash")
        assert bash is not None
        ended = subprocess.run(
            [bash, SCRIPT], env={"PATH": str(self.folder)}, capture_output=True, text=True, check=False, timeout=60
        )
        return (self.folder / "commands").read_text().splitlines(), ended.stderr, ended.returncode


@pytest.mark.parametrize("user", [0, 1000])
def test_nothing_is_installed_if_nothing_is_missing(tmp_path: Path, user: int) -> None:
    """If no tool is missing, nothing is installed or printed, and the tests run."""
    assert Machine(tmp_path, tools=TOOLS, user=user).run() == ([TEST], "", 0)


@pytest.mark.parametrize(
    ("tools", "packages"),
    [((), PACKAGES), (TOOLS[1:], "fuse3"), (TOOLS[:2], "prometheus chromium iproute2 curl faketime")],
)
def test_root_installs_what_is_missing(tmp_path: Path, tools: tuple[str, ...], packages: str) -> None:
    """Root installs the packages of the missing tools, without asking questions, before the tests run."""
    assert Machine(tmp_path, tools=tools).run() == ([f"{INSTALL} {packages}", TEST], "", 0)


def test_package_lists_are_updated_if_an_installation_fails(tmp_path: Path) -> None:
    """If the installation fails, the package lists are updated and the installation is tried once more."""
    install = f"{INSTALL} {PACKAGES}"

    assert Machine(tmp_path, apt_get=NEEDS_UPDATE).run() == ([install, UPDATE, install, TEST], "", 0)


def test_a_failed_installation_is_reported_and_the_tests_run(tmp_path: Path) -> None:
    """If the second installation fails as well, the script reports the failure and runs the tests."""
    install = f"{INSTALL} {PACKAGES}"
    fails_after_update = f'[ "$1" = update ] || {FAILS}'

    commands, printed, status = Machine(tmp_path, apt_get=fails_after_update).run()

    assert (commands, status) == ([install, UPDATE, install, TEST], 0)
    assert printed == f"ci: could not install {PACKAGES}: the tests that need them will be skipped\n"


@pytest.mark.parametrize(
    ("user", "apt_get", "reason"), [(1000, SUCCEEDS, "not root"), (0, None, "no apt-get")], ids=["user", "no apt-get"]
)
def test_missing_tools_are_reported_if_they_cannot_be_installed(
    tmp_path: Path, user: int, apt_get: str | None, reason: str
) -> None:
    """Without root or apt-get, nothing is installed; the script says what is missing and runs the tests."""
    commands, printed, status = Machine(tmp_path, user=user, apt_get=apt_get).run()

    assert (commands, status) == ([TEST], 0)
    assert printed == f"ci: {PACKAGES} missing and {reason}: the tests that need them will be skipped\n"


def test_the_exit_status_is_that_of_the_tests(tmp_path: Path) -> None:
    """The run fails if and only if `make test` fails."""
    assert Machine(tmp_path, tools=TOOLS, make=2).run() == ([TEST], "", 2)

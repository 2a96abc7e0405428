"""The container file and the systemd unit name files that exist, and settings that a broker accepts."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tidy.tree import ROOT
from tidemill.app.listeners import SettingRefused
from tidemill.app.settings import settings_from
from tidemill.app.start import STOP_S
from tidemill.cli.failure import ExitCode

PACKAGING = ROOT / "packaging"
UNIT = PACKAGING / "systemd" / "tidemill.service"
SETTINGS = PACKAGING / "systemd" / "tidemill.yaml"
INSTRUCTIONS = [
    (line.split(maxsplit=1)[0], line.split(maxsplit=1)[1])
    for line in re.sub(r" *\\\n *", " ", (PACKAGING / "Containerfile").read_text()).splitlines()
    if line and not line.startswith("#")
]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((PACKAGING / "compose.yaml").read_text())["services"]
A_RUN = re.compile(r"^docker run (.+?[^\\])\n", re.MULTILINE | re.DOTALL)
RUNS = [
    shlex.split(found.replace("\\\n", " ")) for found in A_RUN.findall((ROOT / "docs" / "containers.md").read_text())
]


def arguments(instruction: str) -> list[str]:
    return [text for name, text in INSTRUCTIONS if name == instruction]


def image_environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for text in arguments("ENV") for pair in shlex.split(text))


def unit_values(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.+)$", UNIT.read_text(), re.MULTILINE)


def test_the_image_is_made_from_files_that_exist() -> None:
    """
    Each file that the container file copies exists, and `.dockerignore` does not exclude it from the build.
    """
    copied = [word for text in arguments("COPY") if "--from" not in text for word in text.split()[:-1]]
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]

    assert [] == [name for name in copied if not (ROOT / name).exists()]
    assert sorted(kept) == sorted(copied)


def test_the_instructions_in_json_are_json() -> None:
    """
    The entry point and the health check are valid JSON, because Docker would run an invalid list as a shell command.
    """
    assert ["tidemill", "broker"] == json.loads(arguments("ENTRYPOINT")[0])
    python, option, check = json.loads(arguments("HEALTHCHECK")[0].partition(" CMD ")[2])
    assert ("python", "-c") == (python, option)
    compile(check, "HEALTHCHECK", "exec")


def test_the_image_listens_only_with_consent() -> None:
    """
    The image's broker can be reached from other machines, so it refuses to start until the user permits that.
    """
    with pytest.raises(SettingRefused, match="TIDEMILL_SET_INSECURE_BIND=true"):
        settings_from(file=None, environment=image_environment(), sets=[])


def test_the_ports_of_the_image_are_those_of_its_settings() -> None:
    """
    The image exposes the ports on which its broker listens, and its health check queries the HTTP port.
    """
    consent = {
        "TIDEMILL_SET_INSECURE_BIND": "true",
        "TIDEMILL_SET_ADVERTISED_LISTENERS": "PLAINTEXT://127.0.0.1:9092",
    }
    settings = settings_from(file=None, environment=image_environment() | consent, sets=[])

    bound = (settings.listeners[0].bind, settings.http, settings.peer.bind)
    assert arguments("EXPOSE") == [" ".join(str(address.port) for address in bound)]
    assert f"'127.0.0.1', {settings.http.port}" in arguments("HEALTHCHECK")[0]
    assert arguments("VOLUME") == [settings.data_directory]


@pytest.mark.parametrize("command", [run for run in RUNS if "--help" not in run], ids=" ".join)
def test_the_commands_of_the_page_start_a_broker(command: list[str]) -> None:
    """
    The image accepts the environment variables that `docs/containers.md` sets.
    """
    variables = dict(command[at + 1].split("=", 1) for at, word in enumerate(command) if word == "--env")

    settings = settings_from(file=None, environment=image_environment() | variables, sets=[])

    assert settings.listeners[0].advertised is not None


@pytest.mark.parametrize("name", SERVICES)
def test_the_brokers_of_the_compose_file_find_each_other(name: str) -> None:
    """
    The settings of each service are accepted.  The first broker creates the cluster, and each of the others joins it
    through the peer addresses of all other brokers.  Clients reach every broker at its published port.
    """
    service = SERVICES[name]

    settings = settings_from(file=None, environment=image_environment() | service["environment"], sets=[])

    (listener,) = settings.listeners
    others = tuple(f"{other}:{settings.peer.bind.port}" for other in SERVICES if other != name)
    assert settings.join == (() if name == next(iter(SERVICES)) else others)
    assert str(settings.peer.advertised) == f"{name}:{settings.peer.bind.port}"
    assert service["ports"] == [f"{listener.advertised}:{listener.bind.port}"]
    assert service["volumes"] == [f"{name}:{settings.data_directory}"]


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """
    systemd reports no problem with the unit, once the unit names a program that exists.
    """
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is missing (Debian package systemd)")
    (program,) = unit_values("ExecStart")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(program.split()[0], sys.executable))

    done = subprocess.run(
        [analyze, "verify", "--man=no", unit], capture_output=True, text=True, check=False, timeout=60
    )

    assert (0, "") == (done.returncode, done.stdout + done.stderr)


def test_the_unit_fits_the_broker() -> None:
    """
    systemd waits longer for a clean stop than the broker does, and does not restart a broker that refused its settings.
    The unit starts the broker with the installed example settings, whose data directory is the unit's state directory.
    """
    (program,) = unit_values("ExecStart")
    settings = settings_from(file=str(SETTINGS), environment={}, sets=[])

    assert STOP_S < int(unit_values("TimeoutStopSec")[0])
    assert [str(int(ExitCode.USAGE))] == unit_values("RestartPreventExitStatus")
    assert [f"{SETTINGS.name}:/etc/tidemill/{SETTINGS.name}"] == unit_values("LoadCredential")
    assert "/opt/tidemill/bin/tidemill broker --config %d/tidemill.yaml --json" == program
    assert settings.data_directory == f"/var/lib/{unit_values('StateDirectory')[0]}"


def test_the_lines_in_the_comments_of_the_settings_are_accepted() -> None:
    """
    The comments in the example settings contain lines for other kinds of machines.  A broker accepts the settings with
    all of these lines added.
    """
    lines = re.findall(r"^# ([a-z.]+): (\S.*)$", SETTINGS.read_text(), re.MULTILINE)

    settings = settings_from(file=str(SETTINGS), environment={}, sets=[f"{key}={text}" for key, text in lines])

    assert 2 == len(settings.join)
    assert settings.listeners[0].bind.is_wildcard

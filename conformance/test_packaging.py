"""The pages about containers and systemd do what they say, where Docker or systemd is there to try it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.documents.test_pages import CONTAINERS, ROOT, SYSTEMD, Reader, user

__all__ = ["user"]


def _has_docker() -> bool:
    """Return whether a Docker daemon answers."""
    docker = shutil.which("docker")
    return docker is not None and 0 == subprocess.run([docker, "info"], capture_output=True, check=False).returncode


def _has_systemd() -> bool:
    """Return whether this process is root on a machine that systemd manages."""
    return os.geteuid() == 0 and Path("/run/systemd/system").is_dir()


@pytest.fixture
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the pages, which begin in the repository, find its files."""
    monkeypatch.setattr(Reader, "_here", lambda _: ROOT)


@pytest.mark.timeout(3_600)
@pytest.mark.skipif(not _has_docker(), reason="no Docker daemon answers")
def test_the_page_about_containers_does_what_it_says(user: Reader, in_the_repository: None) -> None:
    """
    The image is built, one container and then the cluster of the compose file run, and each command succeeds.
    """
    user.follow(CONTAINERS)


@pytest.mark.timeout(3_600)
@pytest.mark.skipif(not _has_systemd(), reason="needs root and systemd, and installs a service")
def test_the_page_about_systemd_does_what_it_says(user: Reader, in_the_repository: None) -> None:
    """
    The unit is installed, started, restarted and stopped, and each command succeeds.
    """
    user.follow(SYSTEMD)

"""The site of `make docs` can be built, and loads nothing from other servers."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOADED_FROM_ELSEWHERE = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")

pytest.importorskip("material", reason="extra 'docs' is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does: a broken link or anchor, or a page missing from the menu, is an error."""
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
    assert 0 == finished.returncode, finished.stdout + finished.stderr
    return directory


def test_every_page_is_on_the_site(site: Path) -> None:
    """
    Each page of `docs` becomes a page of the site.
    """
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site).with_suffix("") for path in site.rglob("*.html")}

    assert set() == {page.with_name("index") if page.name == "README" else page for page in pages} - built


def test_the_site_loads_nothing_from_other_servers(site: Path) -> None:
    """
    Fonts, scripts and the search index come with the site, so it works without a network and does not reveal its
    readers to other servers.
    """
    loaded = {tag for page in site.rglob("*.html") for tag in LOADED_FROM_ELSEWHERE.findall(page.read_text())}

    assert set() == loaded
    assert (site / "search" / "search_index.json").is_file()

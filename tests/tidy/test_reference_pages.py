"""The pages of `docs/reference` are what `tools/reference_pages.py` writes."""

import pytest

from tools.reference_pages import PAGES, pages

WRITTEN = pages()


@pytest.mark.parametrize("name", WRITTEN)
def test_a_reference_page_is_up_to_date(name: str) -> None:
    """
    The page has every key, metric and command of the code: `python tools/reference_pages.py` rewrites it.
    """
    assert (PAGES / name).read_text() == WRITTEN[name]


def test_every_reference_page_is_written_by_the_tool() -> None:
    """
    No page is left over from a tool that has stopped writing it.
    """
    assert sorted(WRITTEN) == sorted(path.name for path in PAGES.glob("*.md"))

"""The pages of `docs/reference` are what `tools/reference_pages.py` writes."""

import pytest

from tools.reference_pages import PAGES, pages

WRITTEN = pages()


@pytest.mark.parametrize("name", WRITTEN)
def test_a_reference_page_is_up_to_date(name: str) -> None:
    """
    A reference page has every key, metric and command of the code.  `python tools/reference_pages.py` rewrites it.
    """
    assert (PAGES / name).read_text() == WRITTEN[name]


def test_every_reference_page_is_written_by_the_tool() -> None:
    """
    The tool writes every page in `docs/reference`: none is left over from an earlier version of the tool.
    """
    assert sorted(WRITTEN) == sorted(path.name for path in PAGES.glob("*.md"))

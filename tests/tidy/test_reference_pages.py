"""The pages of `docs/reference`, and the tables in `docs/spark.md`, match the output of `tools/reference_pages.py`."""

import pytest

from tools.reference_pages import A_TABLE, PAGES, SPARK_PAGE, pages, spark_page

WRITTEN = pages()


@pytest.mark.parametrize("name", WRITTEN)
def test_a_reference_page_is_up_to_date(name: str) -> None:
    """
    A reference page lists every key, metric and command of the code.  `python tools/reference_pages.py` rewrites it.
    """
    assert (PAGES / name).read_text() == WRITTEN[name]


def test_every_reference_page_is_written_by_the_tool() -> None:
    """
    The tool writes every page in `docs/reference`: none is left over from an earlier version of the tool.
    """
    assert sorted(WRITTEN) == sorted(path.name for path in PAGES.glob("*.md"))


def test_the_tables_of_the_spark_guide_are_up_to_date() -> None:
    """
    The guide lists every option of the source, the sink and the connection.  `python tools/reference_pages.py` rewrites
    the tables.
    """
    text = SPARK_PAGE.read_text()
    tables = [found["name"] for found in A_TABLE.finditer(text)]

    assert spark_page(text) == text
    assert [
        "source options", "sink options", "connection keys", "security keys", "keys without effect", "refused keys",
    ] == tables  # fmt: skip

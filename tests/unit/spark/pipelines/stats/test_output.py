"""The directory of the results."""

from pathlib import Path

import pytest

from tidemill.spark.pipelines.stats.output import Output, OutputRefused


def test_a_directory_belongs_to_one_topic(tmp_path: Path) -> None:
    """
    A run replaces the results of its own topic, and refuses those of another, and files that are not results.
    """
    own = Output(tmp_path / "a", "flights")
    own.check()
    own.begin()
    own.check()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "notes.txt").write_text("mine")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "stats.json").write_text("{")

    for directory, sentence in (("a", "of topic 'flights'"), ("b", "other files"), ("c", "damaged")):
        with pytest.raises(OutputRefused, match=sentence):
            Output(tmp_path / directory, "orders").check()


def test_charts_of_an_earlier_run_are_removed(tmp_path: Path) -> None:
    """
    A topic that has lost its keys has no picture of keys any more.
    """
    output = Output(tmp_path / "a", "flights")
    output.write_charts({"sizes": b"1", "keys": b"2"})

    output.write_charts({"sizes": b"3"})

    assert {"sizes.png": b"3"} == {path.name: path.read_bytes() for path in (tmp_path / "a" / "charts").iterdir()}

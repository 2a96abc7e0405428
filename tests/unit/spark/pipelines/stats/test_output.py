"""The output directory of the statistics."""

from pathlib import Path

import pytest

from tidemill.spark.pipelines.stats.output import Output, OutputRefused


def test_a_directory_belongs_to_one_topic(tmp_path: Path) -> None:
    """
    A run replaces earlier results of its own topic, but refuses a directory with the results of another topic or with
    other files.
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
    If the keys of a topic are gone, the chart of keys that an earlier run has written is removed.
    """
    output = Output(tmp_path / "a", "flights")
    output.write_charts({"sizes": b"1", "keys": b"2"})

    output.write_charts({"sizes": b"3"})

    assert {"sizes.png": b"3"} == {path.name: path.read_bytes() for path in (tmp_path / "a" / "charts").iterdir()}

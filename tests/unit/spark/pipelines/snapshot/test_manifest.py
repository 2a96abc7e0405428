"""The manifest of a snapshot."""

import json
import os
from dataclasses import replace

import pytest

from tidemill.model.partition import TopicPartition
from tidemill.spark.pipelines.snapshot import manifest
from tidemill.spark.pipelines.snapshot.manifest import Manifest, SnapshotRefused

FIRST = Manifest(
    topic="planes",
    topic_id="00ff",
    version=7,
    offsets={TopicPartition("planes", 0): 12, TopicPartition("planes", 1): 0},
    has_headers=False,
    keys=3,
)


def test_the_json_is_that_of_the_documentation(tmp_path):
    """The JSON has the format that docs/formats/pipelines.md describes, so that later versions can read it."""
    (tmp_path / "v0000007").mkdir()

    manifest.commit(tmp_path, FIRST)

    assert {
        "format": 1,
        "topic": "planes",
        "topic_id": "00ff",
        "version": 7,
        "directory": "v0000007",
        "offsets": {"planes": {"0": 12, "1": 0}},
        "has_headers": False,
        "keys": 3,
    } == json.loads((tmp_path / "_snapshot.json").read_text())
    assert FIRST == manifest.read(tmp_path)


def test_a_version_is_durable_before_the_manifest_names_it(tmp_path, monkeypatch):
    """
    Every file and directory of the version is synced first.  The manifest is synced before it is renamed, and its
    directory after that.
    """
    (tmp_path / "v0000007" / "nested").mkdir(parents=True)
    (tmp_path / "v0000007" / "part-0.parquet").write_text("x")
    (tmp_path / "v0000007" / "nested" / "part-1.parquet").write_text("x")
    synced = []

    def sync(descriptor):
        name = os.readlink(f"/proc/self/fd/{descriptor}").removeprefix(str(tmp_path))
        synced.append((name, (tmp_path / "_snapshot.json").exists()))

    monkeypatch.setattr(os, "fsync", sync)
    manifest.commit(tmp_path, FIRST)

    version = "/v0000007"
    data = [f"{version}/nested", f"{version}/nested/part-1.parquet", f"{version}/part-0.parquet", version]
    assert sorted((name, False) for name in data) == sorted(synced[:4])
    assert [("", False), ("/_snapshot.json.new", False), ("", True)] == synced[4:]


def test_without_a_manifest_there_is_no_snapshot(tmp_path):
    assert manifest.read(tmp_path) is None
    assert manifest.read(tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("{", "is damaged"), ("[]", "has format \\[\\]"), ('{"format": 2}', "has format 2, and this version of Tidemill")],
)
def test_a_manifest_that_cannot_be_read_is_refused_by_name(tmp_path, text, sentence):
    (tmp_path / "_snapshot.json").write_text(text)

    with pytest.raises(SnapshotRefused, match=f"_snapshot.json {sentence}"):
        manifest.read(tmp_path)


def test_the_last_versions_are_kept(tmp_path):
    """A newer version that was not committed is removed, too; anything that is not a version is kept."""
    for name in ("v0000005", "v0000006", "v0000007", "v0000008", "vegetables", "v1"):
        (tmp_path / name).mkdir()
    manifest.commit(tmp_path, replace(FIRST, version=7))

    manifest.remove_others(tmp_path, 7, kept=2)

    assert {"v0000006", "v0000007", "vegetables", "v1", "_snapshot.json"} == {one.name for one in tmp_path.iterdir()}

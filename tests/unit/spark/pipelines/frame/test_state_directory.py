"""The state directory of a pipeline."""

import multiprocessing
import os
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from tidemill.spark.pipelines.frame.state_directory import StateDirectory, StateRefused


def test_a_value_is_read_back(tmp_path: Path) -> None:
    """
    A later run reads back the value; reading a name that was never written returns None.
    """
    StateDirectory(tmp_path / "new" / "state").write("offsets", {"0": 5, "text": "é"})
    again = StateDirectory(tmp_path / "new" / "state")

    assert ({"0": 5, "text": "é"}, None) == (again.read("offsets"), again.read("other"))


def test_reading_creates_nothing(tmp_path: Path) -> None:
    """
    A plan may read a state directory that does not exist, and does not create it.
    """
    state = StateDirectory(tmp_path / "state")

    assert (None, [], str(tmp_path / "state" / "checkpoint")) == (
        state.read("offsets"),
        [*tmp_path.iterdir()],
        state.checkpoint(),
    )


def test_a_failed_write_leaves_the_old_value(tmp_path: Path) -> None:
    """
    A value is replaced only when the new one is complete on disk.
    """
    state = StateDirectory(tmp_path)
    state.write("offsets", {"0": 1})

    with pytest.raises(TypeError):
        state.write("offsets", {"0": object()})

    assert {"0": 1} == state.read("offsets")


def test_the_file_and_its_directory_are_synced_around_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A value is on disk before it replaces the old one, and the new name is on disk when `write` returns.
    """
    state = StateDirectory(tmp_path)
    calls: list[str] = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append(os.readlink(f"/proc/self/fd/{fd}")), sync(fd))[1])
    monkeypatch.setattr(Path, "replace", lambda old, new: (calls.append(f"to {new.name}"), replace(old, new))[1])

    state.write("offsets", {"0": 1})

    assert [str(tmp_path / "offsets.new"), "to offsets.json", str(tmp_path)] == calls


@pytest.mark.parametrize("name", ["", "../x", "A", "a/b", ".hidden"])
def test_a_name_is_a_file_in_the_directory(tmp_path: Path, name: str) -> None:
    """
    A name cannot refer to a file outside the state directory.
    """
    with pytest.raises(ValueError, match="no name of a state file"):
        StateDirectory(tmp_path).write(name, {})


def test_a_claim_is_kept(tmp_path: Path) -> None:
    """
    The first run claims the directory, and a later run with the same identity may use it.
    """
    state = StateDirectory(tmp_path)
    state.claim("archive", {"topic": "flights", "to": "/data"})
    state.claim("archive", {"to": "/data", "topic": "flights"})

    expected = {"format": 1, "pipeline": "archive", "identity": {"topic": "flights", "to": "/data"}}
    assert expected == state.read("pipeline")


@pytest.mark.parametrize(
    ("pipeline", "identity", "error"),
    [
        ("replay", {"topic": "a", "to": "b"}, "pipeline=replay: state=.* belongs to a run with pipeline=archive; use"),
        ("archive", {"topic": "x", "to": "b"}, "topic=x: state=.* belongs to a run with topic=a; use another state"),
        ("archive", {"topic": "a"}, r"to=\(none\): state=.* belongs to a run with to=b; use another state"),
        ("archive", {"topic": "a", "to": "b", "new": "c"}, r"new=c: state=.* belongs to a run with new=\(none\);"),
    ],
)
def test_another_identity_is_refused(tmp_path: Path, pipeline: str, identity: dict[str, str], error: str) -> None:
    """
    A run with another pipeline or identity is refused with the key, both values and the fix, and changes nothing.
    """
    state = StateDirectory(tmp_path)
    state.claim("archive", {"topic": "a", "to": "b"})
    before = state.read("pipeline")

    with pytest.raises(StateRefused, match=error):
        state.claim(pipeline, identity)

    assert before == state.read("pipeline")


@pytest.mark.parametrize(
    ("text", "error"),
    [("{", "is damaged"), ("[]", "is no JSON object"), ('{"format": 2}', "has format 2, and this version")],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, text: str, error: str) -> None:
    """
    A damaged file is refused with an error that names it, and the directory is never mistaken for a new one.
    """
    (tmp_path / "pipeline.json").write_text(text)

    with pytest.raises(StateRefused, match=error):
        StateDirectory(tmp_path).claim("archive", {})


def test_a_second_run_is_refused_by_name(tmp_path: Path) -> None:
    """
    Only one run at a time can use the directory.  The error names the pipeline and the process of the other run.
    """
    first = StateDirectory(tmp_path)
    with first.locked():
        first.claim("archive", {})
        with pytest.raises(StateRefused, match=rf"in use by the pipeline archive \(process {os.getpid()}\): wait"):
            StateDirectory(tmp_path).locked().__enter__()

    with StateDirectory(tmp_path).locked():
        pass


def _hold(path: Path, is_held: Event) -> None:
    with StateDirectory(path).locked():
        is_held.set()
        multiprocessing.Event().wait()


def test_a_killed_run_releases_the_directory(tmp_path: Path) -> None:
    """
    The kernel releases the lock of a run that was killed, so the same command can resume immediately.
    """
    context = multiprocessing.get_context("spawn")
    is_held = context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, is_held))
    holder.start()
    assert is_held.wait(30)

    with pytest.raises(StateRefused, match=f"process {holder.pid}"):
        StateDirectory(tmp_path).locked().__enter__()
    holder.kill()
    holder.join()

    with StateDirectory(tmp_path).locked():
        pass

"""The options of mode=share, and what it refuses."""

import pickle

import pytest

from tidemill.columnar import share_options, source_options
from tidemill.columnar.data_loss import OnDataLoss

AT = {"kafka.bootstrap.servers": "h:1", "subscribe": "jobs"}
SHARE = {**AT, "mode": "share", "group": "workers"}


def test_the_mode_is_share_only_if_it_says_so():
    assert [False, False, True] == [
        source_options.is_share(options) for options in (AT, {**AT, "mode": "offsets"}, {**AT, "mode": " Share "})
    ]


def test_options_are_pickled_with_the_work():
    options = share_options.parse({**SHARE, "kafka.sasl.password": "env:SECRET", "minpartitions": "4"})

    assert options == pickle.loads(pickle.dumps(options))  # noqa: S301 - our own bytes
    assert ("workers", 4, OnDataLoss.SKIP) == (
        options.group,
        options.source.partitions_min,
        options.source.data_loss.on_data_loss,
    )


@pytest.mark.parametrize("group", [{}, {"group": " "}])
def test_a_group_is_required(group):
    with pytest.raises(ValueError, match="mode=share needs option group: name the share group"):
        share_options.parse({**AT, "mode": "share", **group})


@pytest.mark.parametrize("name", share_options.REFUSED)
def test_options_of_other_queries_are_refused(name):
    with pytest.raises(ValueError, match=f"{name}=1 is not supported with mode=share: "):
        share_options.parse({**SHARE, name.lower(): "1"})


def test_a_batch_read_is_refused():
    with pytest.raises(ValueError, match="mode=share is not supported in batch reads"):
        source_options.for_batch(SHARE)


@pytest.mark.parametrize("parse", [source_options.for_batch, source_options.for_stream])
def test_a_group_without_mode_share_is_refused(parse):
    with pytest.raises(ValueError, match="group=workers is used only with mode=share: set it"):
        parse({**AT, "group": "workers"})


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="mode=queue is unknown: use offsets or share"):
        source_options.is_share({**AT, "mode": "queue"})

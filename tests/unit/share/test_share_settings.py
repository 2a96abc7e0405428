"""The settings of a share group follow from its configuration."""

from dataclasses import fields

from tidemill.model.back_off import BackOff, Growth
from tidemill.model.share_group_config import ShareGroupConfig
from tidemill.share.share_settings import Mode, Order, ShareSettings, settings_from


def test_the_defaults_agree() -> None:
    """A group without settings has the default settings."""
    assert ShareSettings() == settings_from(ShareGroupConfig())


def test_every_setting_of_records_is_taken_from_the_configuration() -> None:
    """
    The configuration determines every setting, except whether dead letters are written, which depends on a topic, too.
    """
    config = ShareGroupConfig(
        lock_ms=1,
        delivery_limit=2,
        locks_max=3,
        is_renewable=False,
        back_off=BackOff(growth=Growth.CONSTANT, first_ms=4),
        ttl_ms=5,
        tracked_max=6,
        order="key",
        mode="exclusive",
        look_ahead=7,
        is_prioritized=True,
        waits_at_failover=True,
    )

    settings, default = settings_from(config), ShareSettings()

    unchanged = [one.name for one in fields(ShareSettings) if getattr(settings, one.name) == getattr(default, one.name)]
    assert ["has_dead_letters"] == unchanged
    assert (Order.KEY, Mode.EXCLUSIVE, 6) == (settings.order, settings.mode, settings.tracked_max)

"""Policy: the limits, from configuration keys."""

from tidemill.model.config_resolution import BrokerLayers
from tidemill.rebalance.policy import Policy, policy_of


def test_the_defaults_of_the_keys_are_those_of_the_policy() -> None:
    """Tests and the simulation use the limits that a cluster has."""
    assert Policy() == policy_of(BrokerLayers())


def test_each_key_sets_its_limit() -> None:
    """The keys can be changed while the cluster runs."""
    settings = {
        "tidemill.rebalance.enable": "false",
        "tidemill.broker.silent.ms": "6000",
        "tidemill.replica.replacement.delay.ms": "30000",
        "tidemill.broker.return.ms": "3000",
        "tidemill.replica.move.bytes.per.second": "1000",
        "tidemill.replica.move.concurrent": "2",
        "tidemill.replica.move.concurrent.cluster": "7",
        "tidemill.rebalance.disk.percent.max": "70",
        "tidemill.load.report.ms": "1000",
    }

    assert policy_of(BrokerLayers(dynamic_default=settings)) == Policy(
        is_enabled=False,
        silent_after_ms=6_000,
        gone_after_ms=30_000,
        active_after_ms=3_000,
        move_bytes_per_s=1_000,
        broker_moves_max=2,
        cluster_moves_max=7,
        disk_percent_max=70,
        figures_after_ms=1_000,
    )

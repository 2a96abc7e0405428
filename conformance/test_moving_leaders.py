"""The same against three brokers whose leaders move."""

from tests.integration.clients.test_moving_leaders import (
    test_an_idle_consumer_is_neither_reset_nor_stuck,
    test_the_client_contract_holds_while_leaders_move,
)

__all__ = ["test_an_idle_consumer_is_neither_reset_nor_stuck", "test_the_client_contract_holds_while_leaders_move"]

"""Runs the client contract with clients in other languages and three brokers whose leaders move."""

from tests.integration.clients.test_moving_leaders import (
    test_idle_consumers_are_neither_reset_nor_stuck,
    test_the_client_contract_holds_while_leaders_move,
)

__all__ = ["test_idle_consumers_are_neither_reset_nor_stuck", "test_the_client_contract_holds_while_leaders_move"]

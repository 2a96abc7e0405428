"""The client contract, case by case as the suite has it, with every client that is at hand."""

from tests.integration.clients.test_client_contract import test_client_contract

__all__ = ["test_client_contract"]

"""Runs the client contract of the test suite, case by case, with every client that is available."""

from tests.integration.clients.test_client_contract import test_client_contract

__all__ = ["test_client_contract"]

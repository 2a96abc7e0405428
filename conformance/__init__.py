"""Tests Tidemill with other projects' clients and tools: the client contract, and the output of Kafka's commands."""

"""Fetch requests that wait for data, and fetch sessions (KIP-227); `delayed_fetch` is the entry point."""

"""Requests: from a decoded request to its response.  Entry point: `broker.broker`."""

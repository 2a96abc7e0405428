"""Requests: from a decoded request to its response.  Entrance: `broker.broker`."""

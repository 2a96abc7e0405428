"""The broker: turns decoded requests into responses.  The entry point is `broker.broker`."""

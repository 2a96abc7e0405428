"""The composition root on the real machine: settings, listeners, start and stop."""

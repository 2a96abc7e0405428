"""The composition root of a real broker process: settings, listeners, start and stop."""

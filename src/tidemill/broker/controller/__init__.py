"""The metadata controller's shell, and the way to the controller from any broker."""

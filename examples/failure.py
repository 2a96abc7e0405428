"""The exception that makes the demo fail."""


class DemoFailed(Exception):
    """A row is missing, a figure differs, or a broker does not return; the message says which."""

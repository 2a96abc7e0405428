"""The exception that makes the demo fail."""


class DemoFailed(Exception):
    """A row is missing, a figure differs, or a broker does not return; the message says which."""


def check(what: str, expected: object, actual: object) -> None:
    """Raise DemoFailed unless both are equal."""
    if expected != actual:
        raise DemoFailed(f"{what}: expected {expected}, got {actual}")

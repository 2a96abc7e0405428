"""Arguments of commands as bytes: a shell passes any bytes, and keys, values and ids of timers may be any."""


def argument_bytes(text: str) -> bytes:
    """Return the bytes that the shell has passed.  Python gives those that are not UTF-8 as surrogates."""
    return text.encode("utf-8", "surrogateescape")

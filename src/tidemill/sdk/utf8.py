"""Text in the arguments of the client, as the bytes that brokers get."""


def utf8(shown: str, text: str) -> bytes:
    """Return text as UTF-8.  Raise ValueError, with the argument that is shown, for half of a surrogate pair."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{shown}: use text that UTF-8 can represent: {error}") from error

"""Broker addresses on the command line: HOST:PORT, or several of them separated by commas."""

from tidemill.cli.failure import usage


def parse_addresses(text: str, *, source: str, example: str) -> list[str]:
    """
    Return the addresses in `text`, the value of the option or environment variable `source`.

    Raise a usage error that shows `example` if one of them is not HOST:PORT.
    """
    addresses = [part.strip() for part in text.split(",")]
    for address in addresses:
        if "://" in address:
            raise usage(f"{source} {text!r}: write HOST:PORT without {address.partition('://')[0]}://")
        host, colon, port = address.rpartition(":")
        if not (host and colon and port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
            raise usage(f"{source} {text!r}: {address!r} is not HOST:PORT; write for example {example}")
    return addresses

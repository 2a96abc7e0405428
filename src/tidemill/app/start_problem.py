"""The exception for brokers that cannot start or stop."""

import os


class StartProblem(Exception):
    """A broker, or a group of brokers, cannot start or stop.  The message says why and what to do."""


class SettingProblem(StartProblem):
    """The broker cannot start with these settings: further attempts also fail until someone changes them."""


def unbindable(key: str, value: object, error: OSError) -> StartProblem:
    """Return the problem of a listener whose address cannot be bound."""
    # The text of `error` differs between the libraries that bind sockets, and some add the address.
    why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
    return StartProblem(f"{key}={value} cannot be bound ({why}): free the address, or set another one")

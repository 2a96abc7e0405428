"""Configurations on the command line: KEY=VALUE."""

from collections.abc import Sequence

from tidemill.cli.failure import usage


def parse_pairs(texts: Sequence[str], *, prefix: str = "") -> dict[str, str]:
    """Return the values by key.  An error quotes the text after `prefix`, which names the option.

    Raise a usage error for a text without `=`, and for a key that is given twice.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise usage(f"{prefix}{text!r} is not KEY=VALUE; write for example {prefix}retention.ms=86400000")
        if key in pairs:
            raise usage(f"{prefix}{key} is given twice ({pairs[key]!r} and {value!r}); give it once")
        pairs[key] = value
    return pairs

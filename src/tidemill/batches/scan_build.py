"""The module name of the compiled `scan.py`.

The name contains a digest of the source, so a stale build, which was made from a different source, never runs.
`tools/build_extension.py` builds the current source and removes stale builds.  Without a build, `scan.py` runs as plain
Python, which is slow but correct.
"""

from hashlib import sha256

COMPILED_PREFIX = "_scan_"


def compiled_name(source: bytes) -> str:
    """Return the name, without its package, of the module into which this source of `scan.py` is compiled."""
    return COMPILED_PREFIX + sha256(source).hexdigest()[:16]

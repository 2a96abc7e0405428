"""The name under which `scan.py` is compiled.

The name carries a digest of the source, so that a build of another source is simply not found: no check can be
forgotten, no date can mislead, and a stale build is never run.  `tools/build_extension.py` builds what is missing
and removes what is stale; until it has, `scan.py` runs as plain Python, which is slow and right.
"""

from hashlib import sha256

COMPILED_PREFIX = "_scan_"


def compiled_name(source: bytes) -> str:
    """The module, without its package, that `scan.py` with this source is compiled to."""
    return COMPILED_PREFIX + sha256(source).hexdigest()[:16]

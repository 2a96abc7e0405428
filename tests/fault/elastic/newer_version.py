"""
A test-made newer version of Tidemill: it supports one feature level more than this one, and its heartbeats have a field
and are followed by a frame section that this version does not know.

    python -m tests.fault.elastic.newer_version broker --json [--set KEY=VALUE]…

The newer version logs each peer from which it has received both.
"""

import sys
from collections.abc import Sequence
from struct import Struct
from typing import Final

from tidemill.metadata import feature_levels

NEWER: Final = feature_levels.NEWEST + 1
NEW_KIND: Final = 200  # of the section; not assigned in `docs/formats/numbers.md`
NEW_TAG: Final = 200  # of the field of a heartbeat
NEW_BODY: Final = b"of a newer version"
HEARD: Final = "newer version heard"
_HEAD: Final = Struct(">BI")  # of a section: kind, length of the body; of a field: tag, length


def main() -> None:
    vars(feature_levels)["NEWEST"] = NEWER  # before any module is imported that takes its default from there
    extend_frames()
    from tidemill.cli.main import main as tidemill

    tidemill(sys.argv[1:])


def extend_frames() -> None:
    """Send the field and the section with every heartbeat, and log which peers send them."""
    from tidemill.broker.peers.peers import Peers
    from tidemill.peer import frame as frames
    from tidemill.peer.link import Buffer, Link

    encode_heartbeat, received = frames.encode_heartbeat, Peers.received
    heard: set[str] = set()

    def encode_with_news(heartbeat: frames.Heartbeat) -> list[Buffer]:
        return with_news(encode_heartbeat(heartbeat))

    def receive_news(self: Peers, link: Link, frame: memoryview) -> None:
        if link.hello.address not in heard and has_news(frame):
            heard.add(link.hello.address)
            print(f"{HEARD}: {link.hello.voter}", file=sys.stderr, flush=True)
        received(self, link, frame)

    vars(frames)["encode_heartbeat"] = encode_with_news
    Peers.received = receive_news  # type: ignore[method-assign]


def with_news(parts: Sequence[bytes]) -> list[bytes]:
    """Return the section of a heartbeat with another field, and another section."""
    section = b"".join(parts)
    kind, _ = _HEAD.unpack_from(section)
    body = section[_HEAD.size :] + _HEAD.pack(NEW_TAG, len(NEW_BODY)) + NEW_BODY
    return [_HEAD.pack(kind, len(body)) + body, _HEAD.pack(NEW_KIND, len(NEW_BODY)) + NEW_BODY]


def has_news(frame: memoryview) -> bool:
    at = 0
    while at < len(frame):
        kind, size = _HEAD.unpack_from(frame, at)
        at += _HEAD.size
        if kind == NEW_KIND:
            return frame[at : at + size] == NEW_BODY
        at += size
    return False


if __name__ == "__main__":
    main()

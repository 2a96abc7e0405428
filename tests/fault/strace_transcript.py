"""Parses the output of `strace -f -yy -v -o FILE` into calls, with process, file or connection, bytes and line numbers.

If another thread makes a call before the first call returns, strace prints the first call in two pieces ("<unfinished
...>" and "<... resumed>").  Such a call begins at its first piece and ends at its second.  The order of two calls is
known only if one of them ended before the other began.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

TRACED = (
    "write", "writev", "sendmsg", "sendto", "read", "readv", "recvfrom", "recvmsg",
    "pwrite64", "pwritev", "pwritev2", "fdatasync", "fsync",
)  # fmt: skip
STRING_BYTES_MAX = 1 << 16  # larger than any request of the audit, so that strace truncates no value

CALL = re.compile(r"^(?P<pid>\d+)\s+(?P<name>\w+)\((?P<rest>.*)$")
RESUMED = re.compile(r"^(?P<pid>\d+)\s+<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)$")
UNFINISHED = " <unfinished ...>"
TARGET = re.compile(r"^\d+<(?P<target>TCP(?:v6)?:\[[^\]]*\]|[^>]*)>")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
RESULT = re.compile(r"\)\s+= (?P<result>-?\d+)(?:\s.*)?$")


@dataclass(frozen=True, slots=True)
class Call:
    pid: int
    name: str
    target: str  # a path, or "TCP:[here->there]"
    data: bytes
    result: int
    began: int  # line number in the transcript
    ended: int
    is_durable: bool = False  # whether the write itself also syncs its bytes

    @property
    def is_write(self) -> bool:
        return self.name in ("write", "writev", "sendmsg", "sendto", "pwrite64", "pwritev", "pwritev2")

    @property
    def is_sync(self) -> bool:
        return self.name in ("fdatasync", "fsync")

    @property
    def is_on_connection(self) -> bool:
        return self.target.startswith("TCP")


def parse(lines: Iterable[str]) -> list[Call]:
    """
    Return the calls in the order in which they began.  A call that never returned is left out, because it proves
    nothing.
    """
    calls: list[Call] = []
    open_calls: dict[tuple[int, str], tuple[int, str]] = {}
    for number, raw in enumerate(lines):
        line = raw.rstrip("\n")
        if (resumed := RESUMED.match(line)) is not None:
            key = (int(resumed["pid"]), resumed["name"])
            if key in open_calls:
                began, start = open_calls.pop(key)
                _append(calls, *key, start + resumed["rest"], began, number)
        elif (call := CALL.match(line)) is not None:
            key, rest = (int(call["pid"]), call["name"]), call["rest"]
            if rest.endswith(UNFINISHED):
                open_calls[key] = (number, rest.removesuffix(UNFINISHED))
            else:
                _append(calls, *key, rest, number, number)
    return sorted(calls, key=lambda call: call.began)


def _append(calls: list[Call], pid: int, name: str, text: str, began: int, ended: int) -> None:
    target, result = TARGET.match(text), RESULT.search(text)
    if target is None or result is None:
        return  # the call has no file or connection, or the process exited during it
    data = b"".join(unescape(piece) for piece in STRING.findall(text[target.end() :]))
    is_durable = name == "pwritev2" and "RWF_DSYNC" in text.rpartition("]")[2]
    calls.append(Call(pid, name, target["target"], data, int(result["result"]), began, ended, is_durable))


def unescape(text: str) -> bytes:
    """Decode strace's escapes, which resemble those of C: octal numbers, and letters for common characters."""
    return text.encode("latin-1").decode("unicode_escape").encode("latin-1")

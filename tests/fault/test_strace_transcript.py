"""The output of strace is parsed into calls."""

from tests.fault.strace_transcript import Call, parse, unescape

SPLIT = r"""
11 pwritev2(7</data/journal/0>, [{iov_base="head\0\377", iov_len=6}, {iov_base="\"q\"\\", iov_len=4}], 2, 4096, 0) = 10
11 fdatasync(7</data/journal/0> <unfinished ...>
10 read(9<TCP:[127.0.0.1:9092->127.0.0.1:40001]>, "abc", 65536) = 3
11 <... fdatasync resumed>) = 0
10 read(9<TCP:[127.0.0.1:9092->127.0.0.1:40001]> <unfinished ...>
10 <... read resumed>, "\1\nz", 65536) = 3
10 read(9<TCP:[127.0.0.1:9092->127.0.0.1:40001]>, 0x7f00, 65536) = -1 EAGAIN (Resource temporarily unavailable)
11 fdatasync(7</data/journal/0>) = -1 EIO (Input/output error)
10 +++ exited with 0 +++
""".strip().splitlines()


def test_escapes_become_bytes() -> None:
    """Escapes become bytes: octal numbers, letters, quotes and backslashes."""
    assert unescape(r"a\0\1\377\n\t\v\f\r\"\\1") == b'a\0\x01\xff\n\t\v\f\r"\\1'


def test_calls_have_targets_bytes_results_and_lines() -> None:
    """A call has a target, bytes, a result and line numbers.  If it is printed in two pieces, it begins at the first
    and ends at the second.
    """
    journal, client = "/data/journal/0", "TCP:[127.0.0.1:9092->127.0.0.1:40001]"

    calls = parse(SPLIT)

    assert [
        Call(11, "pwritev2", journal, b'head\0\xff"q"\\', 10, 0, 0),
        Call(11, "fdatasync", journal, b"", 0, 1, 3),
        Call(10, "read", client, b"abc", 3, 2, 2),
        Call(10, "read", client, b"\x01\nz", 3, 4, 5),
        Call(10, "read", client, b"", -1, 6, 6),
        Call(11, "fdatasync", journal, b"", -1, 7, 7),
    ] == calls

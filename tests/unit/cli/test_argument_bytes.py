from tidemill.cli.argument_bytes import argument_bytes


def test_bytes_that_are_not_utf_8_are_those_that_were_passed() -> None:
    assert ["é".encode(), b"k\xff"] == [argument_bytes(it) for it in ("é", "k\udcff")]

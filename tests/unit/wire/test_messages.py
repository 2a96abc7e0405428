"""Every message of every version, held against two libraries that know the protocol."""

import io
from random import Random

import pytest
from kio.serial import entity_writer
from tests.unit.wire.random_messages import as_kio, draw, kio_schema

from tidemill.wire import api as apis
from tidemill.wire.schema import Api

SIDES = [(api, side) for api in apis.ALL.values() for side in ("request", "response")]


def body(api: Api, side: str, version: int, message) -> bytes:
    if side == "response":
        return b"".join(api.encode_response_body(version, message))
    frame = b"".join(api.encode_request(version, message, 7, None))
    return frame[15:] if version >= api.flexible_from else frame[14:]


def decoded(api: Api, side: str, version: int, data: bytes):
    decode = api.decode_request if side == "request" else api.decode_response
    return decode(version, memoryview(data))


@pytest.mark.parametrize(("api", "side"), SIDES, ids=lambda x: getattr(x, "name", x))
def test_kio(api, side):
    random = Random(5)
    for version in api.versions:
        if api.key == 0 and version < 3:
            continue
        schema = kio_schema(api, side, version)
        write = entity_writer(schema)
        for _ in range(6):
            message = draw(random, getattr(api, side), version)
            buffer = io.BytesIO()
            write(buffer, as_kio(message, schema, version))
            mine = body(api, side, version, message)
            assert buffer.getvalue() == mine, (version, message)
            assert message == decoded(api, side, version, mine)

"""A response with only UNKNOWN_SERVER_ERROR can be built for every API version with an error code."""

import pytest

from tidemill.model import errors
from tidemill.wire.api import ALL
from tidemill.wire.failure import failure_response


@pytest.mark.parametrize("api", ALL.values(), ids=lambda api: api.name)
def test_a_failure_can_be_encoded_in_every_version_with_an_error_code(api) -> None:  # type: ignore[no-untyped-def]
    """
    If a handler has failed, the response to its request can be built and encoded in every version that has an error
    code.
    """
    for version in api.versions:
        response = failure_response(api, version)
        if response is not None:
            frame = memoryview(b"".join(bytes(part) for part in api.encode_response(version, response, 1)))[4:]
            decoded = api.decode_response(version, frame, api.response_body_at(version, frame))

            assert errors.UNKNOWN_SERVER_ERROR == decoded.error_code

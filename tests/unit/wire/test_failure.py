"""The answer that says only that the broker failed."""

import pytest

from tidemill.model import errors
from tidemill.wire.api import ALL
from tidemill.wire.failure import failure_response


@pytest.mark.parametrize("api", ALL.values(), ids=lambda api: api.name)
def test_a_failure_can_be_sent_in_every_version_that_has_a_word_for_it(api) -> None:  # type: ignore[no-untyped-def]
    """
    It is made when something has gone wrong already: it must not go wrong itself.
    """
    for version in api.versions:
        response = failure_response(api, version)
        if response is not None:
            frame = memoryview(b"".join(bytes(part) for part in api.encode_response(version, response, 1)))[4:]
            decoded = api.decode_response(version, frame, api.response_body_at(version, frame))

            assert errors.UNKNOWN_SERVER_ERROR == decoded.error_code

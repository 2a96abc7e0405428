"""All error codes of a response are found, whichever fields contain them."""

from tidemill.model import errors
from tidemill.wire.api import ALL
from tidemill.wire.messages import fetch, heartbeat, produce
from tidemill.wire.response_errors import compile_error_finder


def partition(error_code: int) -> produce.Response.Topic.Partition:
    return produce.Response.Topic.Partition(index=0, error_code=error_code, base_offset=-1)


def test_error_codes_of_nested_structs_are_found_in_order() -> None:
    """
    The error codes of nested structs are found in order, without code 0, which is not an error.
    """
    codes = [[errors.NONE, errors.INVALID_RECORD], [errors.REQUEST_TIMED_OUT, errors.REQUEST_TIMED_OUT]]
    topics = [
        produce.Response.Topic(name="flights", partition_responses=[partition(code) for code in topic])
        for topic in codes
    ]

    found = produce.API.errors_in(produce.Response(responses=topics))

    assert [errors.INVALID_RECORD, errors.REQUEST_TIMED_OUT, errors.REQUEST_TIMED_OUT] == found


def test_the_error_code_of_the_whole_response_is_found() -> None:
    """
    The error code of the whole response is found, and code 0 is left out.
    """
    refused = fetch.Response(error_code=errors.INVALID_FETCH_SESSION_EPOCH, responses=())

    assert [errors.INVALID_FETCH_SESSION_EPOCH] == fetch.API.errors_in(refused)
    assert [] == heartbeat.API.errors_in(heartbeat.Response(error_code=errors.NONE))


def test_error_codes_can_be_found_in_the_response_of_every_api() -> None:
    """
    The search for error codes works for the response of every API, even if its arrays are null or it has no error
    codes.
    """
    for api in ALL.values():
        finder = compile_error_finder(api.response.__fields__)
        empty = api.response(**{field.name: field.implicit_default() for field in api.response.__fields__})

        assert [] == finder(empty), api

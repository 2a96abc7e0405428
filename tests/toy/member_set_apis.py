"""Two small APIs for the toy coordinator, and their handlers."""

from collections.abc import Sequence
from typing import Any

from tests.toy.member_sets import MEMBER_SETS, Add, Read, Rejected
from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.shard.pending import Pending
from tidemill.wire.primitives import INT16, INT32, STRING, array
from tidemill.wire.schema import Api, Message, field


class AddRequest(Message):
    key: str = field(STRING)
    member: str = field(STRING)


class AddResponse(Message):
    error_code: int = field(INT16, default=0)
    member_count: int = field(INT32, default=-1)


class ReadRequest(Message):
    key: str = field(STRING)


class ReadResponse(Message):
    error_code: int = field(INT16, default=0)
    members: Sequence[str] = field(array(STRING), default=())


ADD = Api(key=20_001, versions=range(1), flexible_from=0, request=AddRequest, response=AddResponse)
READ = Api(key=20_002, versions=range(1), flexible_from=0, request=ReadRequest, response=ReadResponse)


def add(request: AddRequest, context: RequestContext) -> Pending[AddResponse]:
    pending: Pending[AddResponse] = Pending()

    def answer(reply: Any) -> None:
        if isinstance(reply, Rejected):
            pending.complete(AddResponse(error_code=_code(reply)))
        else:
            pending.complete(AddResponse(member_count=reply))

    context.broker.coordinators.of(MEMBER_SETS).ask(request.key, Add(request.key, (request.member,)), answer)
    return pending


def read(request: ReadRequest, context: RequestContext) -> Pending[ReadResponse]:
    pending: Pending[ReadResponse] = Pending()

    def answer(reply: Any) -> None:
        if isinstance(reply, Rejected):
            pending.complete(ReadResponse(error_code=_code(reply)))
        else:
            pending.complete(ReadResponse(members=reply))

    context.broker.coordinators.of(MEMBER_SETS).ask(request.key, Read(request.key), answer)
    return pending


def _code(rejected: Rejected) -> int:
    return rejected.reason if isinstance(rejected.reason, int) else errors.REQUEST_TIMED_OUT


HANDLERS = {ADD: add, READ: read}

"""Bounds the memory of responses that their clients have not taken yet.

A thousand clients can each request a page of megabytes and read nothing.  The API of `/v1` has bounds of its own
(`v1/budgets`), because it knows before it has read records how many there will be.
"""

from typing import Final

from tidemill.http.answer import RETRY_AFTER, Answer, Asgi, Receive, Scope, Send, problem, send_answer
from tidemill.http.sending import in_parts

FREE_BYTES: Final = 16 << 10  # a response of so many is sent in any case


class UnreadResponses:
    """What the responses of some paths take together."""

    def __init__(self, bytes_max: int) -> None:
        """One response may be larger than `bytes_max`, if there is no other one."""
        self.bytes = 0
        self._bytes_max = bytes_max

    async def serve(self, application: Asgi, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response of `application`, or 503 if the responses of others take too much."""
        taken = 0
        is_refused = False
        head: Scope | None = None  # it is sent when it is known how much follows
        send_in_parts = in_parts(send, "GET")  # the server leaves out the body of a response to HEAD

        async def send_message(message: Scope) -> None:
            nonlocal taken, is_refused, head
            if is_refused:
                return
            if message["type"] == "http.response.start":
                head = message
                return
            size = len(message.get("body", b""))
            if head is not None:
                if size > FREE_BYTES and self.bytes and self.bytes + size > self._bytes_max:
                    is_refused = True
                    await send_answer(self._refusal, scope, send)
                    return
                await send_in_parts(head)
                head = None
            taken += size
            self.bytes += size
            await send_in_parts(message)

        try:
            await application(scope, receive, send_message)
        finally:
            self.bytes -= taken

    @property
    def _refusal(self) -> Answer:
        detail = (
            f"the clients of other requests have not taken {self.bytes} bytes yet: try again, or ask another broker"
        )
        return problem(503, detail)._replace(headers=RETRY_AFTER)

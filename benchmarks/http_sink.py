"""
A bare ASGI application that reads bodies and drops them: what the HTTP server takes in at most.

    python -m benchmarks.http_sink PORT
"""

import sys
from typing import Any

import uvicorn


async def sink(_: Any, receive: Any, send: Any) -> None:
    has_more = True
    while has_more:
        has_more = (await receive()).get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


if __name__ == "__main__":
    # With the broker's event loop and HTTP parser.
    uvicorn.run(sink, port=int(sys.argv[1]), loop="uvloop", http="h11", lifespan="off", log_level="critical")

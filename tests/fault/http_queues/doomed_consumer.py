"""A consumer as a process, which is killed while it holds messages: PORT PATH."""

import http.client
import json
import sys


def main() -> None:
    port, path = sys.argv[1:]
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
    while True:
        body = {"consumer": "doomed", "max": 100, "wait_ms": 10_000, "lease_ms": 2_000}
        connection.request("POST", f"{path}/receive", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        if response.status == 200 and (messages := json.loads(text)["messages"]):
            print(len(messages), flush=True)
            sys.stdin.read()


if __name__ == "__main__":
    main()

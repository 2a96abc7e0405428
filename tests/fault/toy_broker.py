"""
A broker process that also hosts the toy coordinator.  Run it with `python -m tests.fault.toy_broker broker --json --set
k=v`.
"""

import argparse
import json
import os

from tests.toy.member_set_apis import HANDLERS
from tests.toy.member_sets import MEMBER_SETS
from tidemill.app.settings import settings_from
from tidemill.app.start import Ready, run
from tidemill.broker.connection import dispatch
from tidemill.wire.api import ALL


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["broker"])
    parser.add_argument("--json", action="store_true", required=True)
    parser.add_argument("--set", action="append", default=[])
    arguments = parser.parse_args()
    for api, handler in HANDLERS.items():
        ALL[api.key] = api
        dispatch.OFFERED[api.key] = api
        dispatch.HANDLERS[api.key] = handler

    def ready(addresses: Ready) -> None:
        row = {"event": "ready", "kafka": addresses.kafka, "http": addresses.http, "pid": os.getpid()}
        print(json.dumps(row), flush=True)

    settings = settings_from(file=None, environment=os.environ, sets=arguments.set)
    run(settings, ready=ready, as_json=True, extra_coordinators=(MEMBER_SETS,))


if __name__ == "__main__":
    main()

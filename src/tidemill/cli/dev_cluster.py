"""`tidemill dev --brokers N`: runs the broker processes and prints the ready line."""

import json
import os
from typing import Any

from tidemill.app.broker_processes import BrokerProcesses
from tidemill.app.dev_directory import DevBroker, DevDirectory
from tidemill.app.listeners import SettingRefused
from tidemill.app.start_problem import StartProblem
from tidemill.cli.failure import Failed, usage


def run_cluster(count: int, *, data: str, kafka: str, http: str, as_json: bool) -> None:
    """
    Run `count` brokers and return when they have stopped.  Print a line when they have formed a cluster.

    Raise a usage error for invalid settings, and `Failed` if ports or directories cannot be used.
    """
    try:
        directory = DevDirectory(data)
        try:
            brokers = directory.brokers(count, kafka=kafka, http=http, environment=os.environ)
            processes = BrokerProcesses(brokers, as_json=as_json)

            def ready() -> None:
                directory.mark_bootstrapped(brokers)
                rows = [_row(broker, processes.pid(broker), as_json=as_json) for broker in brokers]
                _tell(rows, data=os.path.abspath(data), as_json=as_json)

            processes.run(ready)
        finally:
            directory.close()
    except SettingRefused as refused:
        raise usage(str(refused)) from refused
    except StartProblem as problem:
        raise Failed(str(problem)) from problem


def _row(broker: DevBroker, pid: int, *, as_json: bool) -> dict[str, Any]:
    return {
        "id": broker.broker_id,
        "kafka": str(broker.kafka),
        "http": str(broker.http),
        "peer": str(broker.peer),
        "pid": pid,
        "data": broker.data,
        "command": broker.command(as_json=as_json),
    }


def _tell(rows: list[dict[str, Any]], *, data: str, as_json: bool) -> None:
    first = rows[0]
    if as_json:
        own = {key: first[key] for key in ("kafka", "http", "peer")} | {"data": data, "pid": os.getpid()}
        print(json.dumps({"event": "ready", **own, "brokers": rows}), flush=True)
        return
    bootstrap = ",".join(row["kafka"] for row in rows)
    print(f"Tidemill is ready: {len(rows)} brokers, data in {data}")
    for row in rows:
        addresses = f"Kafka at {row['kafka']}, console at http://{row['http']}/, peers at {row['peer']}"
        print(f"  broker {row['id']}: {addresses}, process {row['pid']}, data in {row['data']}")
    print(f"Try:  tidemill topics list --bootstrap {bootstrap}")
    print(f"      tidemill cluster status --http {first['http']}      Press Ctrl-C to stop them all.", flush=True)

"""A group member as a separate process, for cases that kill it.

python -m tests.integration.clients.group_member MODULE:CLIENT BOOTSTRAP GROUP TOPIC
"""

import sys
from collections.abc import Callable
from pkgutil import resolve_name

from tests.integration.clients.client_port import Client


def main() -> None:
    adapter, bootstrap, group, topic = sys.argv[1:]
    connect: Callable[[str], Client] = resolve_name(adapter)
    member = connect(bootstrap).consumer(group)
    member.subscribe([topic])
    while True:
        member.poll(0.2)


if __name__ == "__main__":
    main()

"""A group member as a process, to be killed: `python -m …group_member CLIENT BOOTSTRAP GROUP TOPIC`."""

import sys

from tests.integration.clients.adapters import connect


def main() -> None:
    name, bootstrap, group, topic = sys.argv[1:]
    member = connect(name, bootstrap).consumer(group)
    member.subscribe([topic])
    while True:
        member.poll(0.2)


if __name__ == "__main__":
    main()

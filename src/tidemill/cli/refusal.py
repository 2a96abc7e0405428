"""The error of a command whose request a broker refused, with the fix if one is known."""

from typing import Final

from tidemill.cli.failure import Failed

_FIXES: Final = {
    "TOPIC_ALREADY_EXISTS": "change it with `tidemill topics alter`, or delete it first",
    "UNKNOWN_TOPIC_OR_PARTITION": "`tidemill topics list` lists the topics, `tidemill topics create` creates one",
    "UNKNOWN_TOPIC": "`tidemill topics list` lists the topics, `tidemill topics create` creates one",
    "UNKNOWN_PARTITION": "`tidemill topics describe` lists the partitions",
    "INVALID_REPLICATION_FACTOR": "--replication-factor must not exceed the number of brokers",
    "INVALID_PARTITIONS": "--partitions must be at least 1 and can only be increased",
    "INVALID_TOPIC_EXCEPTION": "use ASCII letters, digits, '.', '_' and '-', at most 249 of them",
    "MESSAGE_TOO_LARGE": "raise the topic's max.message.bytes with `tidemill topics alter TOPIC --config …`",
    "GROUP_ID_NOT_FOUND": "`tidemill groups list` lists the groups",
    "NON_EMPTY_GROUP": "stop its consumers, or wait until their sessions have ended",
    "NOT_CONTROLLER": "a majority of the brokers may be down: `tidemill cluster status` shows which are up",
    "COORDINATOR_NOT_AVAILABLE": "a majority of the brokers may be down, or the disk of one is full: "
    "`tidemill cluster status` and `/health/ready` show it",
    "UNKNOWN_MEMBER_ID": "the group has members again: stop its consumers, and run the command again",
}


def refusal(name: str, about: str, reason: str) -> Failed:
    """Return the error for a refused request, whose subject is `about`; `name` is Kafka's name of the error."""
    fix = _FIXES.get(name)
    text = reason if reason.startswith(about) else f"{about}: {reason}"
    return Failed(text.rstrip(".") + (f"; {fix}" if fix else ""), name=name)

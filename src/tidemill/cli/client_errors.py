"""Converts the errors of Tidemill's own client to those of commands."""

from collections.abc import Iterator
from contextlib import contextmanager

from tidemill.cli.bootstrap import no_response
from tidemill.cli.failure import Failed
from tidemill.cli.refusal import refusal
from tidemill.client.failures import BrokerUnreachable, ClientError, RetriesExhausted, UnknownTopic
from tidemill.client.leader_requests import RequestRefused


@contextmanager
def client_errors(bootstrap: str, about: str) -> Iterator[None]:
    """Raise `Failed` for a ClientError in the block, whose subject is `about`."""
    try:
        yield
    except (BrokerUnreachable, RetriesExhausted) as problem:
        raise no_response(bootstrap, f"{about}: {problem}") from problem
    except UnknownTopic as problem:
        raise refusal("UNKNOWN_TOPIC_OR_PARTITION", f"topic {problem.topic!r}", str(problem)) from problem
    except RequestRefused as problem:
        raise refusal(problem.name, about, str(problem)) from problem
    except ClientError as problem:
        raise Failed(f"{about}: {problem}") from problem

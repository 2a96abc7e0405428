"""Topics that nobody asked to create, but that are needed: named by a client's Metadata request, or internal ones."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tidemill.broker.controller.controller_host import ControllerHost
from tidemill.broker.peers.cluster import Cluster
from tidemill.metadata.topics import CreatedTopic, CreateInternalTopic, CreateTopics, NewTopic
from tidemill.model import errors
from tidemill.peer import create_internal_topic
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown
from tidemill.wire.messages import create_topics

VERSION: Final = 7  # of CreateTopics, between brokers
DEFAULT: Final = -1


class TopicCreation:
    """Wherever the controller is."""

    def __init__(self, controller: ControllerHost, cluster: Cluster) -> None:
        self._controller = controller
        self._cluster = cluster

    def create(self, names: Sequence[str], created: Callable[[Mapping[str, int]], None]) -> None:
        """
        With the cluster's defaults.  `created` gets the error code of each that could not be made, once the others can
        be used; what was there already is no error.
        """

        def decided(codes: Mapping[str, int]) -> None:
            problems = {name: code for name, code in codes.items() if not _is_there(code)}
            self._cluster.when_led([name for name in names if name not in problems], lambda: created(problems))

        if self._controller.accepts_writes:

            def decided_here(topics: tuple[CreatedTopic, ...] | OutcomeUnknown) -> None:
                if topics is OUTCOME_UNKNOWN:
                    decided(_timed_out(names))
                else:
                    decided({topic.name: _code(topic) for topic in topics})

            self._controller.submit(CreateTopics(topics=tuple(NewTopic(name=name) for name in names))).then(
                decided_here
            )
            return

        def answered(response: create_topics.Response | int) -> None:
            if isinstance(response, int):
                decided(dict.fromkeys(names, response))
            else:
                decided({topic.name: topic.error_code for topic in response.topics})

        request = create_topics.Request(topics=[_wanted(name) for name in names])
        self._cluster.controller_client.ask(create_topics.API, VERSION, request, answered)

    def create_internal(self, name: str, created: Callable[[int], None]) -> None:
        """`created` gets an error code, or 0 once the topic can be used."""

        def decided(code: int) -> None:
            if _is_there(code):
                self._cluster.when_led([name], lambda: created(errors.NONE))
            else:
                created(code)

        if self._controller.accepts_writes:
            self._controller.submit(CreateInternalTopic(name=name)).then(lambda topic: decided(_code(topic)))
            return

        def answered(response: create_internal_topic.Response | int) -> None:
            decided(response if isinstance(response, int) else response.error_code)

        api = create_internal_topic.API
        self._cluster.controller_client.ask(api, 0, create_internal_topic.Request(name=name), answered)


def _is_there(code: int) -> bool:
    return code in (errors.NONE, errors.TOPIC_ALREADY_EXISTS)


def _code(topic: CreatedTopic | OutcomeUnknown) -> int:
    if topic is OUTCOME_UNKNOWN:
        return errors.REQUEST_TIMED_OUT
    return errors.NONE if topic.problem is None else topic.problem.error_code


def _timed_out(names: Sequence[str]) -> dict[str, int]:
    return dict.fromkeys(names, errors.REQUEST_TIMED_OUT)


def _wanted(name: str) -> create_topics.Request.Topic:
    return create_topics.Request.Topic(
        name=name, num_partitions=DEFAULT, replication_factor=DEFAULT, assignments=(), configs=()
    )

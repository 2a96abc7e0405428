"""TopicCreation: asks the controller to create internal topics, and topics named in Metadata requests."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tidemill.broker.controller.controller_client import ControllerClient
from tidemill.broker.peers.cluster import Cluster
from tidemill.broker.peers.unanswered import Unanswered, error_code_of
from tidemill.model import errors
from tidemill.model.config_resolution import NOTHING
from tidemill.peer import create_internal_topic
from tidemill.wire.messages import create_topics

VERSION: Final = 7  # the version of CreateTopics that brokers send each other
DEFAULT: Final = -1


class TopicCreation:
    def __init__(self, client: ControllerClient, cluster: Cluster) -> None:
        self._client = client
        self._cluster = cluster

    def create(
        self,
        names: Sequence[str],
        created: Callable[[Mapping[str, int]], None],
        configs: Mapping[str, str] = NOTHING,
    ) -> None:
        """
        Create topics with these settings, and otherwise with the cluster's defaults.  `created` is called when the
        created topics have leaders, with the error code of each topic that could not be created.  An existing topic is
        not an error.
        """

        def decided(outcome: create_topics.Response | Unanswered) -> None:
            if isinstance(outcome, Unanswered):
                problems = dict.fromkeys(names, error_code_of(outcome))
            else:
                problems = {it.name: it.error_code for it in outcome.topics if not _exists(it.error_code)}
            self._cluster.when_led([name for name in names if name not in problems], lambda: created(problems))

        request = create_topics.Request(topics=[_with_defaults(name, configs) for name in names])
        self._client.ask(create_topics.API, request, version=VERSION).then(decided)

    def create_internal(self, name: str, created: Callable[[int], None]) -> None:
        """Create an internal topic.  `created` is called with 0 when the topic has leaders, or with an error code."""

        def decided(outcome: create_internal_topic.Response | Unanswered) -> None:
            if isinstance(outcome, Unanswered):
                created(error_code_of(outcome))
            elif _exists(outcome.error_code):
                self._cluster.when_led([name], lambda: created(errors.NONE))
            else:
                created(outcome.error_code)

        self._client.ask(create_internal_topic.API, create_internal_topic.Request(name=name)).then(decided)


def _exists(code: int) -> bool:
    return code in (errors.NONE, errors.TOPIC_ALREADY_EXISTS)


def _with_defaults(name: str, configs: Mapping[str, str]) -> create_topics.Request.Topic:
    topic = create_topics.Request.Topic
    return topic(
        name=name,
        num_partitions=DEFAULT,
        replication_factor=DEFAULT,
        assignments=(),
        configs=[topic.Config(name=key, value=value) for key, value in configs.items()],
    )

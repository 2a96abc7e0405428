"""Obtains a producer id, which lets brokers recognize the batches of a producer that are sent again (KIP-98)."""

from typing import Final

from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import BrokerUnreachable, ClientError
from tidemill.client.partition_queue import ProducerId
from tidemill.model import errors
from tidemill.wire.messages import init_producer_id

_RETRIABLE: Final = frozenset(
    {
        errors.BROKER_NOT_AVAILABLE,
        errors.CONCURRENT_TRANSACTIONS,
        errors.COORDINATOR_LOAD_IN_PROGRESS,
        errors.COORDINATOR_NOT_AVAILABLE,
        errors.NETWORK_EXCEPTION,
        errors.NOT_CONTROLLER,
        errors.NOT_COORDINATOR,
        errors.REQUEST_TIMED_OUT,
        errors.UNKNOWN_SERVER_ERROR,
    }
)
_NO_PERMISSION: Final = (
    "grant the permission IDEMPOTENT_WRITE on the cluster or WRITE on a topic, or set enable.idempotence=false"
)


def new_producer_id(cluster: ClusterMetadata, *, deadline_ms: int) -> ProducerId:
    """Return a unique producer id.  Raise RetriesExhausted, or ClientError if a broker refuses the request."""
    back_off = cluster.back_off(deadline_ms)
    while True:
        failure: ClientError
        try:
            response = cluster.ask_any(_ask)
        except BrokerUnreachable as error:
            failure = error
        else:
            if response.error_code == errors.NONE:
                return ProducerId(response.producer_id, response.producer_epoch)
            failure = ClientError(f"the broker refuses a producer id: {errors.name(response.error_code)}")
            if response.error_code == errors.CLUSTER_AUTHORIZATION_FAILED:
                raise ClientError(f"{failure}; {_NO_PERMISSION}")
            if response.error_code not in _RETRIABLE:
                raise failure
        back_off.pause(failure)


def _ask(connection: BrokerConnection) -> init_producer_id.Response:
    request = init_producer_id.Request(transactional_id=None, transaction_timeout_ms=60_000)
    response: init_producer_id.Response = connection.request(init_producer_id.API, request)
    return response

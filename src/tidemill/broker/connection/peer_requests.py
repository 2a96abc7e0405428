"""PeerRequests: handles other brokers' requests to the controller, and their requests for leadership transfers.

If a request for the controller arrives at a broker that is not the controller, the response is empty.  So is the
response to an unknown request.  An empty response tells the sender that the request was not handled, so the sender
looks for the controller again.  Only Join requests are forwarded.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from tidemill.broker.broker import Broker
from tidemill.broker.clients.pipelines import Pipelines
from tidemill.broker.connection.dispatch import CONTROLLER_HANDLERS, HANDLERS, UNLISTED
from tidemill.broker.connection.forwarding import Handler, forwarded
from tidemill.broker.connection.letter_receipt import write_letter
from tidemill.broker.peers.peers import Respond
from tidemill.broker.request.request_context import RequestContext
from tidemill.metadata.admission import AdmitBroker, Admitted
from tidemill.metadata.brokers import RegisterBroker, Registered
from tidemill.metadata.controller import Command
from tidemill.metadata.metadata_records import Endpoint
from tidemill.metadata.producer_ids import AllocateProducerIds, ProducerIdBlock
from tidemill.metadata.topics import CreateInternalTopic
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, DirectoryId
from tidemill.model.shard import ShardId
from tidemill.peer import (
    allocate_producer_ids,
    create_internal_topic,
    image_offset,
    join,
    register,
    share_close,
    share_letter,
    share_open,
    share_reset,
    transfer_leadership,
)
from tidemill.peer.link import Link
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown, Pending
from tidemill.wire.api import ALL
from tidemill.wire.failure import failure_response
from tidemill.wire.schema import Api, Message
from tidemill.wire.server_connection import ServerConnection, UnknownRequest

FRAME_SIZE_BYTES: Final = 4  # size field of a Kafka frame; requests between brokers include it
MISSED_MS: Final = (
    5_000  # after its last heartbeat here, all brokers have missed one that has died; a few ticks suffice
)


class BrokerCaller:
    """The `Caller` of a request that a broker sends, for itself or for a client."""

    listener = ""
    offered: Collection[int] = ()

    def __init__(self, address: str) -> None:
        self.pipelines = Pipelines()
        self._address = address

    @property
    def peer(self) -> tuple[str, int]:
        host, _, port = self._address.rpartition(":")
        return host, int(port or 0)

    def hold(self) -> None:
        """Do nothing: only Produce holds its connection, and brokers never forward Produce."""

    def release(self) -> None:
        """Do nothing, because `hold` does nothing either."""

    def close(self) -> None:
        """Do nothing: the link must stay open, because it carries other requests, too."""


class PeerRequests:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        controller: dict[Api, Handler] = {
            register.API: self._register,
            allocate_producer_ids.API: self._allocate_producer_ids,
            create_internal_topic.API: self._create_internal_topic,
            image_offset.API: self._image_offset,
        }
        anywhere: dict[Api, Handler] = {
            join.API: self._join_anywhere,
            transfer_leadership.API: self._transfer_leadership,
            share_open.API: self._open_share,
            share_close.API: self._close_share,
            share_reset.API: self._reset_shares,
            share_letter.API: self._write_letter,
        }
        # Clients send these, too.
        shared = {api: HANDLERS[key] for key, api in UNLISTED.items() if key not in CONTROLLER_HANDLERS}
        own = controller | anywhere | shared
        # A Join is forwarded, because a joining broker may know only one address.  Forwarding does not wait for a
        # controller, because the joining broker itself retries a refused Join.
        self._forward_join = forwarded(join.API, self._join, _refused_join, wait_ms=0)
        self._for_controller = CONTROLLER_HANDLERS.keys() | {api.key for api in controller}
        self._handlers: Mapping[int, Handler] = CONTROLLER_HANDLERS | {api.key: it for api, it in own.items()}
        known = ALL | UNLISTED
        self._wire = ServerConnection({key: known[key] for key in CONTROLLER_HANDLERS} | {api.key: api for api in own})

    def handle(self, api: Api, version: int, request: Any) -> object:
        """Handle a request of this broker as if it came from another broker.  Return a response or a `Pending`."""
        broker = self._broker
        caller = BrokerCaller(broker.cluster.address)
        return self._handlers[api.key](request, RequestContext(broker, caller, version, None, broker.clock.wall_ms()))

    def answer(self, link: Link, data: memoryview, respond: Respond) -> None:
        """
        Handle a request from another broker.  The response to an unknown one, of a newer version of Tidemill, is empty:
        if the link was closed, this broker would not hear the other one for a while.  Raises ProtocolError, which
        closes the link, if a known request cannot be decoded.
        """
        try:
            envelope = self._wire.decode(data[FRAME_SIZE_BYTES:])
        except UnknownRequest:
            respond(())
            return
        broker = self._broker
        if envelope.api.key in self._for_controller and not broker.controller.accepts_writes:
            respond(())
            return
        caller = BrokerCaller(link.hello.address)
        context = RequestContext(broker, caller, envelope.version, envelope.client_id, broker.clock.wall_ms())

        def answered(response: Message | None) -> None:
            if response is None:
                response = failure_response(envelope.api, envelope.version)
            if response is not None:
                parts = envelope.encode(response)
                respond([parts[0][FRAME_SIZE_BYTES:], *parts[1:]])

        outcome: Any = self._handlers[envelope.api.key](envelope.request, context)
        if isinstance(outcome, Pending):
            outcome.then(answered, lambda _: answered(None))
        else:
            answered(outcome)

    def _join_anywhere(self, request: join.Request, context: RequestContext) -> object:
        """
        Forward a Join to the controller, and add the addresses of the brokers that this broker hears to the response,
        even if there is no controller: there may be none because brokers have moved, and the addresses in the metadata
        are outdated.
        """
        pending: Pending[join.Response] = Pending()

        def answered(response: join.Response) -> None:
            heard = context.broker.cluster.live_addresses(DirectoryId(request.directory_id))
            response.live_peers = [*dict.fromkeys((*response.live_peers, *heard))]
            pending.complete(response)

        outcome: Any = self._forward_join(request, context)
        outcome.then(answered, pending.fail)
        return pending

    # Requests that only the controller answers.

    def _join(self, request: join.Request, context: RequestContext) -> object:
        broker = context.broker

        def answer(admitted: Admitted) -> join.Response:
            peers = broker.cluster.addresses_of_others(BrokerId(admitted.broker_id))
            return join.Response(cluster_id=admitted.cluster_id, broker_id=admitted.broker_id, peers=peers)

        if self._is_just_missed(request):
            return join.Response(error_code=errors.REQUEST_TIMED_OUT)  # the joining broker asks again at once
        command = AdmitBroker(
            directory_id=DirectoryId(request.directory_id),
            broker_id=BrokerId(request.broker_id) if request.broker_id >= 0 else None,
            live=broker.cluster.heard(),
            level=request.level,
            was_admitted=request.was_admitted,
        )
        return self._submit(command, answer, join.Response)

    def _is_just_missed(self, request: join.Request) -> bool:
        """
        Return whether the broker whose place a new directory is to take has died a moment ago: this broker does not
        hear it any more, and some other one has not missed it yet.
        """
        cluster = self._broker.cluster
        known = self._broker.image.brokers.get(BrokerId(request.broker_id))
        if known is None or known.directory_id == request.directory_id or request.was_admitted:
            return False
        is_missed = known.broker_id in cluster.heard() and known.broker_id not in cluster.live()
        return is_missed and cluster.peers.was_alive(known.voter, MISSED_MS)

    def _register(self, request: register.Request, context: RequestContext) -> object:
        command = RegisterBroker(
            broker_id=BrokerId(request.broker_id),
            directory_id=DirectoryId(request.directory_id),
            endpoints=tuple(Endpoint(it.name, it.host, it.port, it.security) for it in request.endpoints),
            rack=request.rack,
            level=request.level,
        )

        def answer(_: Registered) -> register.Response:
            return register.Response(image_offset=context.broker.image.offset)

        return self._submit(command, answer, register.Response)

    def _allocate_producer_ids(self, request: allocate_producer_ids.Request, context: RequestContext) -> object:
        def answer(block: ProducerIdBlock) -> allocate_producer_ids.Response:
            return allocate_producer_ids.Response(first=block.ids.start, count=len(block.ids))

        command = AllocateProducerIds(broker_id=BrokerId(request.broker_id))
        return self._submit(command, answer, allocate_producer_ids.Response)

    def _create_internal_topic(self, request: create_internal_topic.Request, context: RequestContext) -> object:
        command = CreateInternalTopic(name=request.name)
        return self._submit(command, lambda _: create_internal_topic.Response(), create_internal_topic.Response)

    def _image_offset(self, _: image_offset.Request, context: RequestContext) -> object:
        pending: Pending[image_offset.Response] = Pending()

        def confirmed(offset: int | OutcomeUnknown) -> None:
            if offset is OUTCOME_UNKNOWN:
                pending.complete(image_offset.Response(error_code=errors.NOT_CONTROLLER))
            else:
                pending.complete(image_offset.Response(offset=offset))

        context.broker.controller.confirm_image_offset().then(confirmed)
        return pending

    def _submit(self, command: Command, answer: Callable[[Any], Message], response: Any) -> Pending[Message]:
        """
        Submit `command` to the controller, which must be this broker.  A refusal becomes a response with the refusal's
        error code and message.
        """
        pending: Pending[Message] = Pending()

        def decided(result: Any) -> None:
            if result is OUTCOME_UNKNOWN:
                pending.complete(response(error_code=errors.REQUEST_TIMED_OUT))
            elif result.problem is not None:
                code, message = result.problem
                pending.complete(response(error_code=code, error_message=message))
            else:
                pending.complete(answer(result))

        self._broker.controller.submit(command).then(decided)
        return pending

    # Leadership transfers: other brokers request them from this broker, which leads the shards.

    def _transfer_leadership(self, request: transfer_leadership.Request, context: RequestContext) -> object:
        moves = [(ShardId(move.shard_id), BrokerId(move.to)) for move in request.moves]
        return transfer_leadership.Response(refused=context.broker.leadership_transfers.here(moves))

    # Questions to a group's coordinator, from the leaders of the partitions that the group reads.

    def _open_share(self, request: share_open.Request, context: RequestContext) -> object:
        return context.broker.shares.opener.answer(request)

    def _close_share(self, request: share_close.Request, context: RequestContext) -> object:
        return context.broker.shares.close(request)

    def _reset_shares(self, request: share_reset.Request, context: RequestContext) -> object:
        return context.broker.shares.resets.reset(request)

    def _write_letter(self, request: share_letter.Request, context: RequestContext) -> object:
        return write_letter(request, context)

    def write_letter_here(self, request: share_letter.Request) -> Pending[share_letter.Response]:
        """Write a dead letter of this broker to a partition that it leads itself."""
        outcome = self.handle(share_letter.API, 0, request)
        assert isinstance(outcome, Pending), "write_letter returns one"
        return outcome


def _refused_join(_: join.Request, error_code: int) -> join.Response:
    return join.Response(error_code=error_code)

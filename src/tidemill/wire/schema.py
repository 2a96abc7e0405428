"""Declaration of Kafka APIs: messages are annotated classes, with fields and versions as data.

    class Request(Message):
        group_id: str = field(STRING)
        group_instance_id: str | None = field(STRING, since=3, default=None)

    API = Api(key=12, versions=range(0, 5), flexible_from=4, request=Request, response=Response)

If a version does not have a field, the encoder skips the field, and the decoder sets it to its default.
A field annotated with `| None` may be null on the wire from its first version on, or from `nullable_since` on.
A tagged field is sent only if its value is not the default; the default of a tagged struct is None.
Sequences are tuples or lists; UUIDs are 16 raw bytes; decoded records are a view of the message's buffer.

The encoder and the decoder for a message and version are compiled on first use.
"""

from collections.abc import Callable
from struct import Struct
from types import NoneType
from typing import Any, Final, dataclass_transform, get_args

from tidemill.wire.decoder import compile_decoder
from tidemill.wire.encoder import compile_encoder
from tidemill.wire.primitives import Buffer, Field, Kind, ProtocolError, skip_tags
from tidemill.wire.response_errors import ErrorFinder, compile_error_finder
from tidemill.wire.source import Source

_REQUIRED: Final = object()
_INLINE_BYTES_MAX: Final = 4096  # copying a body up to this size costs less than sending header and body separately

Part = bytes | bytearray | memoryview
"""A part of an encoded message.  Parts are sent one after the other.  Once encoded, a part must not change."""


def field(
    kind: Kind,
    *,
    since: int = 0,
    until: int | None = None,
    nullable_since: int | None = None,
    tag: int | None = None,
    tagged_since: int = 0,
    default: Any = _REQUIRED,
) -> Any:
    """Declare a field of a message.  To construct a message, a value is required for each field without a default."""
    is_required = default is _REQUIRED
    return Field(
        kind=kind,
        since=since,
        until=until,
        nullable_since=nullable_since,
        tag=tag,
        tagged_since=tagged_since,
        default=None if is_required else default,
        is_required=is_required,
    )


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class MessageType(type):
    """Turns annotated fields into slots, and collects their declarations in `__fields__`."""

    __fields__: tuple[Field, ...]

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> "MessageType":
        annotations: dict[str, Any] = namespace.get("__annotations__", {})
        fields = tuple(_named(name, annotations[name], namespace.pop(name)) for name in annotations)
        namespace["__slots__"] = tuple(field.name for field in fields)
        message = super().__new__(cls, name, bases, namespace)
        message.__fields__ = fields
        return message


def _named(name: str, annotation: Any, declared: Field) -> Field:
    may_be_none = NoneType in get_args(annotation)
    # A tagged struct that is None is not sent, so it is never null on the wire.
    is_tagged_struct = declared.tag is not None and isinstance(declared.kind, type)
    nullable_since = declared.nullable_since
    if may_be_none and nullable_since is None and not is_tagged_struct:
        nullable_since = declared.since
    return Field(
        name=name,
        kind=declared.kind,
        since=declared.since,
        until=declared.until,
        nullable_since=nullable_since,
        tag=declared.tag,
        tagged_since=max(declared.since, declared.tagged_since),
        default=declared.default,
        is_required=declared.is_required,
    )


class Message(metaclass=MessageType):
    """A request, a response, or a struct nested in one.  By convention it is not modified after construction."""

    def __init__(self, **values: Any) -> None:
        # The first construction of a message compiles the `__init__` that all later messages of the class use.
        message = type(self)
        message.__init__ = _compile_init(message.__fields__)  # type: ignore[method-assign]
        message.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            _comparable(getattr(self, field.name)) == _comparable(getattr(other, field.name))
            for field in type(self).__fields__
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = (f"{field.name}={_shown(getattr(self, field.name))}" for field in type(self).__fields__)
        return f"{type(self).__qualname__}({', '.join(values)})"


def _compile_init(fields: tuple[Field, ...]) -> Any:
    """Compile an `__init__` that takes every field as a keyword parameter and assigns it."""
    source = Source()
    parameters = [field.name if field.is_required else f"{field.name}={field.default!r}" for field in fields]
    with source.block(f"def __init__(self, {', '.join(['*', *parameters]) if fields else ''}):"):
        for field in fields:
            source.line(f"self.{field.name} = {field.name}")
        source.line("return None")
    return source.function("__init__")


def _comparable(value: object) -> object:
    """Return `value`, or a tuple if it is a list, so that a list equals a tuple with the same elements."""
    return tuple(value) if isinstance(value, list) else value


def _shown(value: object) -> str:
    return f"<{len(value)} bytes>" if isinstance(value, memoryview) else repr(value)


_REQUEST_HEADER: Final = Struct(">ihhih")  # frame size, API key, version, correlation id, length of the client id
_REQUEST_FRAME: Final = Struct(">i")
_RESPONSE_HEADER_V0: Final = Struct(">ii")  # frame size, correlation id
_RESPONSE_HEADER_V1: Final = Struct(">iix")  # frame size, correlation id, an empty section of tagged fields

API_VERSIONS_KEY: Final = 18


class Api:
    """One Kafka API: its key, the supported versions, and the codecs of its messages."""

    __slots__ = (
        "_request_decoders",
        "_request_encoders",
        "_response_decoders",
        "_response_encoders",
        "errors_in",
        "flexible_from",
        "ignores_trailing_bytes",
        "key",
        "name",
        "request",
        "response",
        "response_header_v1_from",
        "versions",
    )

    def __init__(
        self,
        *,
        key: int,
        versions: range,
        flexible_from: int | None,
        request: type[Message],
        response: type[Message],
        ignores_trailing_bytes: bool = False,
    ) -> None:
        """
        Declare an API.

        `versions` are the supported versions; `flexible_from` is the first flexible version, or None.  With
        `ignores_trailing_bytes`, bytes after the end of a request are ignored, as Kafka's brokers do for every API.
        """
        self.key = key
        # In every layer, the module of an API has this name, such as `list_offsets`.
        self.name = request.__module__.rpartition(".")[2]
        self.versions = versions
        self.flexible_from = versions.stop if flexible_from is None else flexible_from
        # A client reads the ApiVersions response before it knows the broker's versions, so its header never changes.
        self.response_header_v1_from = versions.stop if key == API_VERSIONS_KEY else self.flexible_from
        self.request = request
        self.ignores_trailing_bytes = ignores_trailing_bytes
        self.response = response
        self.errors_in: ErrorFinder = self._find_errors_at_first
        """A function that returns the error codes of a response that are not 0, in the order of the fields."""
        self._request_decoders = [self._decoder_at_first(request, v) for v in range(versions.stop)]
        self._request_encoders = [self._encoder_at_first(request, v) for v in range(versions.stop)]
        self._response_decoders = [self._decoder_at_first(response, v) for v in range(versions.stop)]
        self._response_encoders = [self._encoder_at_first(response, v) for v in range(versions.stop)]

    def __repr__(self) -> str:
        return f"Api({self.name}, key={self.key}, v{self.versions.start}-{self.versions.stop - 1})"

    # Bodies.  Callers must check that the version is one of `versions`.

    def decode_request(self, version: int, view: Buffer, position: int = 0) -> Any:
        """
        Decode the request whose body is `view` from `position` to its end.  Raise ProtocolError.

        Records in the request are views of `view`.
        """
        return self._request_decoders[version](view, position)

    def decode_response(self, version: int, view: Buffer, position: int = 0) -> Any:
        """Decode the response whose body is `view` from `position` to its end.  Raise ProtocolError."""
        return self._response_decoders[version](view, position)

    def encode_response_body(self, version: int, response: Message) -> list[Part]:
        """Encode a response without frame size and header.  The result may be used to answer several requests."""
        parts: list[Part] = []
        last = self._response_encoders[version](response, bytearray(), parts)
        if last:
            parts.append(last)
        return parts

    def response_body_at(self, version: int, frame: memoryview) -> int:
        """
        Return the position of the body in a response frame, after correlation id and tagged fields.

        Raise ProtocolError if the frame ends inside the header.
        """
        if version < self.response_header_v1_from:
            return 4
        if len(frame) < 5:
            raise ProtocolError("the response ends inside its header")
        return skip_tags(frame, 5, frame[4])

    # Complete frames, to be sent with `writelines(parts)`.

    def encode_response(self, version: int, response: Message, correlation_id: int) -> list[Part]:
        """Encode the frame of a response to a request of this version."""
        first = bytearray(9 if version >= self.response_header_v1_from else 8)
        parts: list[Part] = []
        last = self._response_encoders[version](response, first, parts)
        if last:
            parts.append(last)
        _RESPONSE_HEADER_V0.pack_into(first, 0, _size(parts) - 4, correlation_id)
        return parts

    def frame_response(self, version: int, body: list[Part], correlation_id: int) -> list[Part]:
        """Return a frame with a body that `encode_response_body` returned; the body is not changed."""
        size = _size(body)
        if version >= self.response_header_v1_from:
            header = _RESPONSE_HEADER_V1.pack(size + 5, correlation_id)
        else:
            header = _RESPONSE_HEADER_V0.pack(size + 4, correlation_id)
        if len(body) == 1 and size <= _INLINE_BYTES_MAX:
            return [header + body[0]]
        return [header, *body]

    def encode_request(
        self, version: int, request: Message, correlation_id: int, client_id: str | None = None
    ) -> list[Part]:
        """Encode a request frame.  The client id is a non-compact string in every version of the header."""
        client = b"" if client_id is None else client_id.encode()
        client_size = -1 if client_id is None else len(client)
        first = bytearray(_REQUEST_HEADER.pack(0, self.key, version, correlation_id, client_size))
        first += client
        if version >= self.flexible_from:
            first += b"\0"
        parts: list[Part] = []
        last = self._request_encoders[version](request, first, parts)
        if last:
            parts.append(last)
        _REQUEST_FRAME.pack_into(first, 0, _size(parts) - 4)
        return parts

    # Compilation on first use: each table initially has functions that replace themselves with a compiled function.

    def _find_errors_at_first(self, response: Message) -> list[int]:
        self.errors_in = compile_error_finder(self.response.__fields__)
        return self.errors_in(response)

    def _decoder_at_first(self, message: type[Message], version: int) -> Callable[[Buffer, int], Any]:
        def compile_and_decode(view: Buffer, position: int) -> Any:
            table = self._request_decoders if message is self.request else self._response_decoders
            self._check(version)
            decoder = compile_decoder(
                message,
                message.__fields__,
                version,
                is_flexible=version >= self.flexible_from,
                ignores_trailing_bytes=self.ignores_trailing_bytes and message is self.request,
            )
            table[version] = decoder
            return decoder(view, position)

        return compile_and_decode

    def _encoder_at_first(
        self, message: type[Message], version: int
    ) -> Callable[[Message, bytearray, list[Part]], bytearray]:
        def compile_and_encode(value: Message, first: bytearray, parts: list[Part]) -> bytearray:
            table = self._request_encoders if message is self.request else self._response_encoders
            self._check(version)
            encoder = compile_encoder(message.__fields__, version, is_flexible=version >= self.flexible_from)
            table[version] = encoder
            return encoder(value, first, parts)

        return compile_and_encode

    def _check(self, version: int) -> None:
        if version not in self.versions:
            raise ProtocolError(
                f"{self.name} v{version} is not supported, only v{self.versions.start}-{self.versions.stop - 1}"
            )


def _size(parts: list[Part]) -> int:
    return len(parts[0]) if len(parts) == 1 else sum(map(len, parts))

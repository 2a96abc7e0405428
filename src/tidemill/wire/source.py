"""Builds Python source code: lines, unique names, and values that the lines refer to."""

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any


class Source:
    """The source of a function under construction.  `text` returns the source, and `function` compiles it."""

    def __init__(self, **scope: Any) -> None:
        self._scope = scope
        self._lines: list[str] = []
        self._depth = 0
        self._fresh_count = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        self._fresh_count += 1
        return f"{prefix}_{self._fresh_count}"

    def refer(self, value: Any) -> str:
        """Return a name by which the lines can refer to `value`."""
        name = self.fresh("value")
        self._scope[name] = value
        return name

    def struct_method(self, method: str, format_: str) -> str:
        """Return a name for the method (`pack` or `unpack_from`) of a compiled big-endian struct."""
        name = f"{method}_{format_.replace('?', 'bool')}"
        if name not in self._scope:
            self._scope[name] = getattr(Struct(">" + format_), method)
        return name

    def text(self) -> str:
        return "\n".join(self._lines)

    def function(self, name: str) -> Any:
        exec(compile(self.text(), f"<compiled {name}>", "exec"), self._scope)
        return self._scope[name]

"""Reserves ports for processes that will listen on them, now or after a restart.

A reserved port is bound here without listening on it.  A process that sets SO_REUSEADDR, as all our listeners do, can
still bind it and listen.  Meanwhile the system assigns it neither to a listener that requests any free port nor to an
outgoing connection.
"""

import socket

from tidemill.app.listeners import Address


class HeldPorts:
    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self, address: Address) -> Address:
        """Reserve the port, or a free one for port 0; return the address with it.  OSError if another process listens
        there.
        """
        held = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((address.host, address.port))
        except OSError:
            held.close()
            raise
        self._held.append(held)
        return Address(address.host, held.getsockname()[1])

    def take_stored(self, address: Address, stored_port: int) -> Address:
        """Reserve as `take` does; for port 0 prefer `stored_port`, if it is still free."""
        if not address.port and stored_port:
            try:
                return self.take(Address(address.host, stored_port))
            except OSError:
                pass  # the port is in use by now
        return self.take(address)

    def close(self) -> None:
        for held in self._held:
            held.close()
        self._held.clear()

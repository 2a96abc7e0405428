"""Reserves ports for processes that will listen on them, now or after a restart.

To reserve a port, this process binds it without listening.  A process that sets SO_REUSEADDR, as all of Tidemill's
listeners do, can still bind the port and listen.  While the port is reserved, the system assigns it neither to a
listener that requests any free port nor to an outgoing connection.
"""

import socket

from tidemill.app.listeners import Address


class HeldPorts:
    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self, address: Address) -> Address:
        """Reserve the port, or any free port if the port is 0, and return the address with the reserved port.

        Raises OSError if another process listens on the port.
        """
        held = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if held.family is socket.AF_INET6:  # IPv6 only, as for Tidemill's listeners: the IPv4 port stays free
                held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            held.bind((address.host, address.port))
        except OSError:
            held.close()
            raise
        self._held.append(held)
        return Address(address.host, held.getsockname()[1])

    def take_stored(self, address: Address, stored_port: int) -> Address:
        """Reserve a port as `take` does, but prefer `stored_port` to other free ports if the port is 0."""
        if not address.port and stored_port:
            try:
                return self.take(Address(address.host, stored_port))
            except OSError:
                pass  # Another process uses the stored port now.
        return self.take(address)

    def close(self) -> None:
        for held in self._held:
            held.close()
        self._held.clear()

"""Ports that are kept for processes which will listen on them, now or after a restart.

A port is bound here and never listened on.  Who sets SO_REUSEADDR, as every listener of ours does, can still bind it
and listen; nobody is given it by chance meanwhile, neither a listener that asks for a free port nor a connection that
needs one of its own.
"""

import socket

from tidemill.app.listeners import Address


class HeldPorts:
    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self, address: Address) -> Address:
        """The address with its port, or with a free one for 0; OSError while somebody listens there."""
        held = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((address.host, address.port))
        except OSError:
            held.close()
            raise
        self._held.append(held)
        return Address(address.host, held.getsockname()[1])

    def take_again(self, address: Address, stored_port: int) -> Address:
        """As `take`; for port 0 the one that was found before, if it is still free."""
        if not address.port and stored_port:
            try:
                return self.take(Address(address.host, stored_port))
            except OSError:
                pass  # somebody else has it by now
        return self.take(address)

    def close(self) -> None:
        for held in self._held:
            held.close()
        self._held.clear()

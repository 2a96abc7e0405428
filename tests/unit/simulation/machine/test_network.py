"""
The simulated network behaves like TCP: it keeps order, delays or loses whole connections, and leaves half-open ends.
"""

from random import Random

from tidemill.simulation.machine.event_loop import US, SimulatedLoop, Timeline, begin_loop
from tidemill.simulation.machine.network import GIVE_UP_US, Network, Socket

PLACE = ("server", 9092)


class World:
    """A client connected to a server, with records of what each of them receives."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.network = Network(self.timeline, Random(1))
        self.client, self.server = begin_loop(self.timeline), begin_loop(self.timeline)
        self.received_data: list[bytes] = []
        self.ends: list[str] = []
        self.failures: list[str] = []
        self.sockets: list[Socket] = []
        self.network.listen(*PLACE, self.server, self._accept)
        self.dial()
        self.timeline.run_until(US)

    def dial(self) -> None:
        self.network.dial(self.client, "client", PLACE, self._connected, self.failures.append)

    def _accept(self, socket: Socket) -> None:
        socket.received = self.received_data.append
        socket.lost = lambda why: self.ends.append(f"server: {why}")

    def _connected(self, socket: Socket) -> None:
        socket.received = self.received_data.append
        socket.lost = lambda why: self.ends.append(f"client: {why}")
        self.sockets.append(socket)

    def pass_time(self, seconds: float) -> None:
        self.timeline.run_until(self.timeline.now_us + int(seconds * US))


def test_data_arrives_in_order() -> None:
    world = World()
    world.network.delay_mean_us, world.network.tail = 50_000, 0.3
    sent = [b"%d" % number for number in range(100)]

    for data in sent:
        world.sockets[0].send(data)
    world.pass_time(60)

    assert world.received_data == sent


def test_a_short_partition_delays_and_a_long_one_loses_the_connection() -> None:
    world = World()
    world.network.blocked.add(("client", "server"))
    world.sockets[0].send(b"delayed")
    world.pass_time(2)
    assert world.received_data == []

    world.network.blocked.clear()
    world.pass_time(2)
    assert world.received_data == [b"delayed"]

    world.network.blocked.add(("client", "server"))
    world.sockets[0].send(b"lost")
    world.pass_time(GIVE_UP_US / US + 2)
    assert world.ends == ["client: timed out"]
    assert world.received_data == [b"delayed"]


def test_a_receiver_that_pauses_reading_later_reads_everything_in_order() -> None:
    world = World()
    other = world.sockets[0]._other
    assert other is not None
    other.pause_reading()
    for number in range(3):
        world.sockets[0].send(b"%d" % number)
    world.pass_time(1)
    assert world.received_data == []

    other.resume_reading()
    world.pass_time(1)

    assert world.received_data == [b"0", b"1", b"2"]


def test_a_process_that_dies_closes_its_connections_and_refuses_new_ones() -> None:
    world = World()
    world.server.kill()
    world.network.process_died(world.server)
    world.dial()
    world.pass_time(1)

    assert world.ends == ["client: closed by the other end"]
    assert world.failures == ["server:9092 refused the connection"]


def test_a_machine_without_power_is_silent_until_it_is_back() -> None:
    world = World()
    world.server.kill()
    world.network.power_lost("server", world.server)
    world.pass_time(5)
    assert world.ends == []

    world.network.power_back("server")
    world.pass_time(5)
    assert world.ends == []  # the client has sent nothing that could be refused

    world.sockets[0].send(b"anybody?")
    world.pass_time(1)
    assert world.ends == ["client: reset: the peer has closed it"]


def test_a_dial_on_a_blocked_way_times_out() -> None:
    world = World()
    world.network.blocked.add(("server", "client"))
    world.dial()
    world.pass_time(10)

    assert world.failures == ["server:9092 timed out"]


def test_a_dead_loop_is_not_connected() -> None:
    world = World()
    world.dial()
    world.client.kill()
    world.pass_time(1)

    assert len(world.sockets) == 1
    assert isinstance(world.client, SimulatedLoop)

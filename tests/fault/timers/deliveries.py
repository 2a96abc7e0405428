"""What a timer topic delivers, and when: records that a reader in a process of its own reports."""

import multiprocessing
import threading
from array import array
from contextlib import suppress

from tests.fault.timers.delivery_reader import send_all

END_S_MAX = 60.0


class Deliveries(threading.Thread):
    """
    Receives what the reader reports.  The columns have an item for each record, in the order of reading.

    The reader has a process of its own: here it would wait for the threads that write, change records, and carry what
    brokers send each other, and a record would seem later than it was.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(name="deliveries", daemon=True)
        self.numbers = array("q")  # of the records: their values
        self.partitions = array("q")
        self.offsets = array("q")
        self.stamps_ms = array("q")  # append times of the brokers
        self.dues_ms = array("q")  # as the headers say
        self.arrivals = array("q")
        self.seen_ms = array("q")  # by the clock of this machine
        self.error: BaseException | None = None
        self._is_stopping = False
        spawn = multiprocessing.get_context("spawn")
        self._connection, self._readers_end = spawn.Pipe()
        arguments = self._readers_end, bootstrap, topic, partitions
        self._process = spawn.Process(target=send_all, args=arguments, daemon=True)

    def __len__(self) -> int:
        return len(self.seen_ms)

    def run(self) -> None:
        try:
            self._process.start()
            self._readers_end.close()  # so that the connection ends with the process
            self._receive()
            self._process.join(END_S_MAX)
            assert self._process.exitcode == 0, f"the reader's process ended with exit code {self._process.exitcode}"
        except BaseException as error:
            self.error = error
            raise

    def stop(self) -> None:
        """Read nothing more, and wait until what was read is here."""
        if not self._is_stopping:
            self._is_stopping = True
            with suppress(OSError):  # the process has ended, and `error` says why
                self._connection.send(None)
        self.join()

    def _receive(self) -> None:
        columns = (
            self.numbers, self.partitions, self.offsets, self.stamps_ms, self.dues_ms, self.arrivals, self.seen_ms,
        )  # fmt: skip
        while True:
            try:
                received = self._connection.recv()
            except EOFError:
                assert self._is_stopping, "the reader's process has ended"
                return
            assert not isinstance(received, str), received
            for column, values in zip(columns, received, strict=True):
                column.extend(values)

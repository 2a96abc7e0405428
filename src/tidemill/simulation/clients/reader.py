"""
Reads one partition from its start, on virtual time, and checks that records are valid and never change.
"""

from tidemill.batches.batch import spans
from tidemill.batches.records import Record, read_records
from tidemill.model import errors
from tidemill.simulation.clients.client import BY_NAME, Client, Leader, Unreachable, check_retriable
from tidemill.simulation.clients.history import History, Read
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.wire.messages import fetch


class Reader:
    def __init__(self, client: Client, history: History, topic: str, number: int) -> None:
        self._client = client
        self._history = history
        self._topic = topic
        self._number = number
        self.offset = 0
        self.high_watermark = 0
        self.is_stopping = False
        self._epoch = -1  # leader epoch of the last record

    async def run(self) -> None:
        client = self._client
        while not self.is_stopping:
            leader = await client.leader(self._topic, self._number)
            try:
                code = await self._fetch(leader)
            except Unreachable:
                code = errors.NETWORK_EXCEPTION
            if code:
                client.forget_leader(self._topic, self._number)
                await client.back_off()

    async def _fetch(self, leader: Leader) -> int:
        """Fetch once.  Return 0, or the code of a retriable error."""
        wanted = fetch.Request.Topic.Partition(
            partition=self._number,
            current_leader_epoch=leader.epoch,
            fetch_offset=self.offset,
            last_fetched_epoch=self._epoch,
            partition_max_bytes=self._client.random.choice((1, 1_000, 1 << 20)),
        )
        topic = fetch.Request.Topic(topic=self._topic, partitions=[wanted])
        wait_ms = self._client.random.choice((0, 100, 500))
        connection = await self._client.connection(leader.address)
        response = await connection.ask(fetch.Request(max_wait_ms=wait_ms, min_bytes=1, topics=[topic]), BY_NAME)
        code: int = response.error_code
        if not code:
            answer = response.responses[0].partitions[0]
            code = answer.error_code
        if code == errors.OFFSET_OUT_OF_RANGE:
            self._skip_to(await self._client.log_start(self._topic, self._number))
            return errors.NONE
        if code:
            check_retriable(f"Fetch of {self._topic}-{self._number} from {self.offset}", code)
            return code
        if answer.diverging_epoch is not None:
            raise InvariantViolation(
                f"{self._topic}-{self._number}: a reader at {self.offset} received a diverging epoch: "
                f"{answer.diverging_epoch}"
            )
        self._take(answer, leader)
        return errors.NONE

    def _skip_to(self, log_start: int) -> None:
        """Continue at the log start.  Only records whose deletion was requested may be missing."""
        asked = self._history.partition(self._topic, self._number).delete_asked
        if not self.offset < log_start <= asked:
            raise InvariantViolation(
                f"{self._topic}-{self._number}: a reader at {self.offset} is out of range; the log starts at "
                f"{log_start}, and deletion was requested up to {asked}"
            )
        self.offset = log_start

    def _take(self, answer: fetch.Response.Topic.Partition, leader: Leader) -> None:
        where = f"{self._topic}-{self._number}"
        if answer.high_watermark < self.high_watermark:
            raise InvariantViolation(
                f"high watermark of {where}: {self.high_watermark}, then {answer.high_watermark} of {leader}"
            )
        self.high_watermark = answer.high_watermark
        records = memoryview(answer.records or b"")  # type: ignore[arg-type]
        for span in spans(records):
            if span.header.end_offset > self.high_watermark:
                raise InvariantViolation(
                    f"{where}: a batch up to {span.header.end_offset}, above {self.high_watermark}"
                )
            for record in read_records(records, span.position):
                if record.offset >= self.offset:
                    read = Read(record.offset, span.header.leader_epoch, span.header.producer_id, record.value or b"")
                    self._history.read(self._topic, self._number, self.offset, read)
                    self._note(record)
                    self.offset = record.offset + 1
                    self._epoch = span.header.leader_epoch

    def _note(self, record: Record) -> None:
        """Take note of a record that was read for the first time."""

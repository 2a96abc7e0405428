"""The interpreter of the transcripts in `tests/scenarios/raft`: every message, sync and crash is a line.

window 1                the maximum number of entries in one message; precedes `voters`
voters 1 2 3            create the voters; `spare 4` creates a replica that may become a member
silent 1                the other brokers consider broker 1 dead; `alive 1` ends this
tick 2 1000             tick replica 2, 1000 ms later
send 1>2                deliver the oldest message from 1 to 2; `send 1>2 *` delivers all, `last 1>2` the newest one
drop 1>2                lose all messages from 1 to 2
again 1>2               deliver the last delivered message again
copy 1>2                keep a copy of the oldest message from 1 to 2; `late 1>2` delivers that copy
sync 2                  everything that replica 2 has queued is durable
control-rows 2          only the queued votes and truncations of replica 2 are durable: the journal is full
begin 2, end 2          a slow sync, which does not include rows that are queued between the two lines
crash 2, start 2        kill replica 2; recover it from its disk
meet 1 3                1 has a new connection to the broker of 3
reborn 2 1              2 learns that the process of 1's broker has restarted
forget 1                drop committed entries from the memory of 1
damage 2 1              2 finds that only the first entry on its disk is intact
files 2                 sync the files that 2 has copied, and continue its install
pull 2                  2 repeats its pull
propose 1 text          propose an entry at 1
change 1 voters 1 2 3 learners 4
transfer 1 2            1 transfers leadership to 2
elect 1                 run the election of 1, with all messages and syncs
stabilize               deliver all messages and complete all syncs, until nothing is left
expect 1 leader term 2 last 3 durable 3 commit 3 log 1:- 1:- 2:text
expect 2 damaged 1 installing 3 content 1:- 1:a      index of the snapshot or 0; the content of files and memory
refuse 1 change voters 1 2                           the change raises IllegalChange
"""

from collections import deque
from pathlib import Path

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.raft.entry import BATCH, Entry
from tidemill.raft.messages import Message
from tidemill.raft.progress import Window
from tidemill.raft.ready import Vote
from tidemill.raft.replica import Replica
from tidemill.raft.voters import IllegalChange, Membership
from tidemill.simulation.shard.model_install import ModelCatchUp, ModelInstall
from tidemill.simulation.shard.model_log import Damage, Installed, ModelLog, Row, control_rows_first

ELECTED_MS = 10_000
JITTER_MS = 100


def voter(number: int | str) -> ReplicaKey:
    return ReplicaKey(BrokerId(int(number)), DirectoryId(b"%016d" % int(number)))


class Transcript:
    def __init__(self) -> None:
        self.disks: dict[int, ModelLog] = {}
        self.memories: dict[int, ModelLog] = {}
        self.replicas: dict[int, Replica] = {}
        self.catch_ups: dict[int, ModelCatchUp] = {}
        self.installs: dict[int, ModelInstall] = {}
        self.file_syncs: set[int] = set()
        self.queued: dict[int, list[Row]] = {}
        self.blocks: dict[int, list[Row]] = {}
        self.messages: dict[tuple[int, int], deque[Message]] = {}
        self.arrived: dict[tuple[int, int], Message] = {}
        self.copies: dict[tuple[int, int], Message] = {}
        self.silent: set[int] = set()
        self.now_ms = 0
        self.window = Window()

    def run(self, path: Path) -> None:
        for number, raw in enumerate(path.read_text().splitlines(), 1):
            line = raw.partition("#")[0].strip()
            if not line:
                continue
            verb, *words = line.split()
            try:
                getattr(self, "do_" + verb.replace("-", "_"))(*words)
            except AssertionError as error:
                raise AssertionError(f"{path.name}:{number}: {raw.strip()}\n{error}\n{self.describe()}") from error

    # Methods for lines that set up the replicas, or act on one replica and its disk.

    def do_window(self, entries: str) -> None:
        self.window = Window(entries_max=int(entries))

    def do_voters(self, *numbers: str) -> None:
        membership = Membership(tuple(voter(number) for number in numbers))
        for number in numbers:
            self.disks[int(number)] = ModelLog(memberships=[(0, membership)])
            self.do_start(number)

    def do_spare(self, *numbers: str) -> None:
        membership = next(iter(self.disks.values())).memberships[0][1]
        for number in numbers:
            self.disks[int(number)] = ModelLog(memberships=[(0, membership)])
            self.do_start(number)

    def do_start(self, number: str) -> None:
        at = int(number)
        self.disks[at].copied = ()
        memory = self.memories[at] = self.disks[at].copy()
        self.file_syncs.discard(at)
        self.queued[at], self.blocks[at] = [], []
        self.replicas[at] = Replica(
            me=voter(at),
            memberships=list(memory.memberships),
            term=memory.vote.term,
            voted_for=memory.vote.voted_for,
            log=memory,
            commit_index=memory.commit_index,
            jitter_ms=lambda: JITTER_MS,
            window=self.window,
            installing=memory.installing,
            is_damaged=memory.is_damaged,
        )
        replica = self.replicas[at]
        self.catch_ups[at] = ModelCatchUp(replica, memory, lambda: 1)
        self.installs[at] = ModelInstall(
            replica, memory, self.disks[at], lambda row: self._queue(at, row), lambda: self.file_syncs.add(at)
        )
        self._tick(at, 0)

    def do_crash(self, number: str) -> None:
        del self.replicas[int(number)]
        for pair in self.messages:
            if int(number) in pair:
                self.messages[pair].clear()

    def do_damage(self, number: str, keep: str) -> None:
        at = int(number)
        self._queue(at, Damage(int(keep)))
        self.replicas[at].mark_damaged()
        self._execute(at)

    def do_silent(self, *numbers: str) -> None:
        self.silent |= {int(number) for number in numbers}

    def do_alive(self, *numbers: str) -> None:
        self.silent -= {int(number) for number in numbers}

    def do_tick(self, number: str, duration_ms: str) -> None:
        self._tick(int(number), int(duration_ms))

    def _tick(self, at: int, duration_ms: int) -> None:
        self.now_ms += duration_ms
        replica = self.replicas[at]
        replica.tick(self.now_ms, self.now_ms, lambda other: int(other.broker_id) not in self.silent)
        self._execute(at)

    def _execute(self, at: int) -> None:
        replica = self.replicas[at]
        ready = replica.ready()
        rows: list[Row] = [] if ready.vote is None else [ready.vote]
        if ready.truncate_from is not None:
            rows.append(ready.truncate_from)
        rows += ready.entries
        for row in rows:
            self._queue(at, row)
        catch_up, install = self.catch_ups[at], self.installs[at]
        offers = [catch_up.offer(member) for member in ready.installs]
        chunks = [catch_up.answer(member, pull) for member, pull in ready.pulls]
        for to, message in [*ready.messages, *offers, *chunks]:
            self._send(at, to, message)
        if ready.offer is not None:
            install.offered(ready.offer)
        came = [chunk for chunk in ready.chunks if install.received(chunk)]
        if came or ready.offer is not None:
            self._pull(at)
        self.memories[at].commit_index = replica.stable_index
        self.disks[at].commit_index = min(replica.stable_index, self.disks[at].last_index)

    def _queue(self, at: int, row: Row) -> None:
        self.memories[at].put(row)
        self.queued[at].append(row)

    def _send(self, at: int, to: ReplicaKey, message: Message) -> None:
        self.messages.setdefault((at, int(to.broker_id)), deque()).append(message)

    def _pull(self, at: int) -> None:
        leader = self.replicas[at].leader
        pull = self.installs[at].pull()
        if pull is not None and leader is not None:
            self._send(at, leader, pull)

    def do_pull(self, number: str) -> None:
        self._pull(int(number))

    def do_files(self, number: str) -> None:
        at = int(number)
        assert at in self.file_syncs, "no files of it are waiting for a sync"
        self.file_syncs.remove(at)
        self.installs[at].files_synced()
        self._execute(at)

    def do_forget(self, number: str) -> None:
        at = int(number)
        below = self.replicas[at].stable_index + 1
        self.memories[at].forget(below)
        self.disks[at].forget(below)

    def do_begin(self, number: str) -> None:
        at = int(number)
        self.blocks[at], self.queued[at] = self.queued[at], []

    def do_control_rows(self, number: str) -> None:
        at = int(number)
        self.blocks[at], self.queued[at] = control_rows_first(self.queued[at])
        self.do_end(number)

    def do_end(self, number: str) -> None:
        at = int(number)
        block, self.blocks[at] = self.blocks[at], []
        for row in block:
            self.disks[at].put(row)
        entries = [row for row in block if isinstance(row, Entry)]
        votes = [row for row in block if isinstance(row, Vote)]
        newest = (entries[-1].term, entries[-1].index) if entries else (0, 0)
        for row in block:
            newest = (row.term, row.index) if isinstance(row, Installed) else newest
        self.replicas[at].advance(*newest, vote=votes[-1] if votes else None)
        for row in block:
            self.installs[at].row_synced(row)
        self._pull(at)
        self._execute(at)

    def do_sync(self, number: str) -> None:
        self.do_begin(number)
        self.do_end(number)

    # Methods for lines about messages.

    def _pair(self, words: str) -> tuple[int, int]:
        sender, _, receiver = words.partition(">")
        return int(sender), int(receiver)

    def do_send(self, words: str, count: str = "1") -> None:
        pair = self._pair(words)
        queue = self.messages.get(pair, deque())
        assert queue or count == "*", f"no message is in flight from {pair[0]} to {pair[1]}"
        for _ in range(len(queue) if count == "*" else int(count)):
            self._arrive(pair, queue.popleft())

    def do_last(self, words: str) -> None:
        pair = self._pair(words)
        self._arrive(pair, self.messages[pair].pop())

    def do_again(self, words: str) -> None:
        self._arrive(self._pair(words), self.arrived[self._pair(words)])

    def do_copy(self, words: str) -> None:
        self.copies[self._pair(words)] = self.messages[self._pair(words)][0]

    def do_late(self, words: str) -> None:
        self._arrive(self._pair(words), self.copies[self._pair(words)])

    def do_drop(self, words: str) -> None:
        self.messages.setdefault(self._pair(words), deque()).clear()

    def _arrive(self, pair: tuple[int, int], message: Message) -> None:
        self.arrived[pair] = message
        sender, receiver = pair
        if receiver in self.replicas:
            self.replicas[receiver].receive(voter(sender), message)
            self._execute(receiver)

    def do_stabilize(self) -> None:
        for _ in range(1_000):
            moved = False
            for pair, queue in list(self.messages.items()):
                while queue and not self.silent & set(pair):
                    self._arrive(pair, queue.popleft())
                    moved = True
            for at in list(self.replicas):
                if self.queued[at]:
                    self.do_sync(str(at))
                    moved = True
                if at in self.file_syncs:
                    self.do_files(str(at))
                    moved = True
            if not moved:
                return
        raise AssertionError("the replicas do not become idle")

    # Methods for lines with commands to replicas.

    def do_elect(self, number: str) -> None:
        for at in self.replicas:
            if at not in self.silent:
                self.replicas[at].forget_leader()
        self._tick(int(number), ELECTED_MS)
        self._tick(int(number), ELECTED_MS)
        self.do_stabilize()
        assert self.replicas[int(number)].leads, f"{number} was not elected"

    def do_propose(self, number: str, text: str) -> None:
        at = int(number)
        self.replicas[at].propose(Entry(BATCH, text.encode()))
        self._execute(at)

    def do_change(self, number: str, *words: str) -> None:
        at = int(number)
        kinds: dict[str, list[ReplicaKey]] = {"voters": [], "learners": []}
        kind = "voters"
        for word in words:
            if word in kinds:
                kind = word
            else:
                kinds[kind].append(voter(word))
        self.replicas[at].change_membership(Membership(tuple(kinds["voters"]), tuple(kinds["learners"])), self.now_ms)
        self._execute(at)

    def do_refuse(self, number: str, verb: str, *words: str) -> None:
        try:
            getattr(self, "do_" + verb)(number, *words)
        except IllegalChange:
            return
        raise AssertionError(f"{number} did not reject it")

    def do_transfer(self, number: str, to: str) -> None:
        self.replicas[int(number)].transfer_leadership(voter(to))
        self._execute(int(number))

    def do_meet(self, number: str, other: str) -> None:
        self.replicas[int(number)].peer_reconnected(voter(other))
        self._execute(int(number))

    def do_reborn(self, number: str, other: str) -> None:
        self.replicas[int(number)].peer_restarted(voter(other))

    def do_expect(self, number: str, *words: str) -> None:
        at = int(number)
        replica = self.replicas[at]
        if "log" in words:
            where = words.index("log")
            words, log = words[:where], words[where + 1 :]
            found = [f"{entry.term}:{_text(entry)}" for entry in self.memories[at].entries]
            assert found == list(log), f"the log is {' '.join(found)}"
        if "content" in words:
            where = words.index("content")
            words, content = words[:where], words[where + 1 :]
            found = [f"{term}:{_shown(data)}" for _, term, data in self.memories[at].content]
            assert found == list(content), f"it holds {' '.join(found)}"
        control_rows = {
            "term": replica.term,
            "last": replica.last_index,
            "durable": replica.durable_index,
            "commit": replica.commit_index,
            "stable": replica.stable_index,
            "voters": len(replica.voters),
            "installing": replica.installing[0] if replica.installing else 0,
            "damaged": int(replica.is_damaged),
            "confirmed": int(replica.is_confirmed),
        }
        rest = list(words)
        if rest and rest[0] not in control_rows:
            assert str(replica.role) == rest.pop(0), f"it is a {replica.role}"
        for name, value in zip(rest[::2], rest[1::2], strict=True):
            assert control_rows[name] == int(value), f"its {name} is {control_rows[name]}"

    def describe(self) -> str:
        lines = []
        for at, r in self.replicas.items():
            lines.append(
                f"  {at}: {r.role} term {r.term} last {r.last_index} durable {r.durable_index} commit {r.commit_index}"
            )
        waiting = {f"{a}>{b}": len(queue) for (a, b), queue in self.messages.items() if queue}
        return "\n".join([*lines, f"  in flight: {waiting}"])


def _shown(data: bytes) -> str:
    return data.decode() if data.isalnum() else "-"


def _text(entry: Entry) -> str:
    return bytes(entry.payload or b"").decode() if entry.kind == BATCH else "-"

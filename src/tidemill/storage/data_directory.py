"""The identity of a data directory: its cluster, its broker and its format (`docs/formats/journal.md`, Identity)."""

import json
from dataclasses import dataclass
from typing import Final

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.storage import paths
from tidemill.storage.disk import Disk

FORMAT: Final = 2
"""The format of the directory as a whole.  In format 1, checkpoints had no machine sections."""


class DirectoryProblem(Exception):
    """The data directory cannot be used as it is.  The message says why, and what the operator can do."""


class WrongDirectory(DirectoryProblem):
    """The data directory belongs to a different broker or cluster than the one in the settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    cluster_id: str
    broker_id: BrokerId
    directory_id: DirectoryId
    journal_key: bytes
    # Whether the broker bootstrapped the cluster.  A broker that joined later replicates the metadata log from the
    # others.
    is_initial_voter: bool = True

    @property
    def voter(self) -> ReplicaKey:
        return ReplicaKey(self.broker_id, self.directory_id)


def read_identity(disk: Disk) -> Identity | None:
    """
    Return the identity of the directory; None if it has none yet.  Raises DirectoryProblem if the identity cannot be
    used.
    """
    if not disk.exists(paths.IDENTITY):
        return None
    file = disk.open(paths.IDENTITY)
    try:
        data = file.read(0, file.size())
    finally:
        file.close()
    try:
        content = json.loads(data)
        if content["format"] != FORMAT:
            remedy = (
                "its data cannot be converted; start the older version that wrote it, or use an empty log.dirs"
                if content["format"] < FORMAT
                else "start the newer version that wrote it"
            )
            raise DirectoryProblem(
                f"{paths.IDENTITY} has format {content['format']}; this program reads format {FORMAT}: {remedy}; "
                "nothing was changed"
            )
        return Identity(
            cluster_id=str(content["cluster_id"]),
            broker_id=BrokerId(int(content["broker_id"])),
            directory_id=DirectoryId(bytes.fromhex(content["directory_id"])),
            journal_key=bytes.fromhex(content["journal_key"]),
            is_initial_voter=bool(content.get("is_initial_voter", True)),
        )
    except (ValueError, KeyError, TypeError) as problem:
        raise DirectoryProblem(
            f"{paths.IDENTITY} cannot be read ({problem}); restore it, or use another log.dirs"
        ) from None


def write_identity(disk: Disk, identity: Identity) -> None:
    """Write the identity durably: the last step of initializing a directory."""
    content = {
        "format": FORMAT,
        "cluster_id": identity.cluster_id,
        "broker_id": identity.broker_id,
        "directory_id": identity.directory_id.hex(),
        "journal_key": identity.journal_key.hex(),
        "is_initial_voter": identity.is_initial_voter,
    }
    data = json.dumps(content, indent=2).encode() + b"\n"
    file = disk.open(paths.IDENTITY_NEW, create=True)
    try:
        file.truncate(0)
        file.write(0, [data])
        file.sync()
    finally:
        file.close()
    disk.rename(paths.IDENTITY_NEW, paths.IDENTITY)
    disk.sync_directory("")

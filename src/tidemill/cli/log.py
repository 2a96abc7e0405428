"""Show or verify the contents of a data directory.  Read-only; also works while the broker is running.

\b
Examples:
  tidemill log verify ./tidemill-data
  tidemill log dump ./tidemill-data | head
"""

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.bootstrap import JsonOption
from tidemill.cli.command_group import CommandGroup

if TYPE_CHECKING:
    from tidemill.runtime.os_disk import OsDisk

DirectoryArgument = Annotated[str, typer.Argument(metavar="DIR", help="A data directory, as in --data or log.dirs.")]


def register(application: typer.Typer) -> None:
    log = CommandGroup("log", __doc__)
    for command in (dump, verify):
        log.command()(command)
    application.add_typer(log)


def dump(directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """
    Print every row of the journal and every batch, one JSON object per line.

    Example: tidemill log dump ./tidemill-data | head
    """
    from tidemill.cli.failure import Failed
    from tidemill.cli.output import pipe_may_close, print_json
    from tidemill.storage.data_directory import DirectoryProblem
    from tidemill.storage.inspect.log_dump import dump as rows_of
    from tidemill.storage.recovery import JournalDamaged

    try:
        with pipe_may_close():
            for row in rows_of(_disk(directory)):
                print_json(row)
    except (DirectoryProblem, JournalDamaged) as problem:
        raise Failed(f"{directory}: {problem}") from None


def verify(directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """
    Check the journal, checkpoints and every batch.  Print file, bytes and offsets of damage, and exit with 1 if any.

    Example: tidemill log verify ./tidemill-data
    """
    from tidemill.cli.failure import ExitCode, Failed
    from tidemill.cli.output import counted, print_json
    from tidemill.storage.data_directory import DirectoryProblem
    from tidemill.storage.inspect.log_verify import verify as verified_of

    try:
        verified = verified_of(_disk(directory))
    except DirectoryProblem as problem:
        raise Failed(f"{directory}: {problem}") from None
    for damage in verified.damages:
        if as_json:
            print_json({"event": "damage", **damage._asdict()})
        else:
            offsets = f", offsets {damage.offset} to {damage.end_offset - 1}" if damage.offset >= 0 else ""
            print(
                f"{damage.file}: bytes {damage.position} to {damage.position + damage.size - 1}{offsets}: "
                f"{damage.problem}"
            )
    counts = {
        "shards": verified.shards,
        "segments": verified.segments,
        "batches": verified.batches,
        "bytes": verified.bytes,
        "blocks": verified.blocks,
        "damages": len(verified.damages),
    }
    if as_json:
        print_json({"event": "verified", **counts})
    else:
        named = [
            counted(count, name.removesuffix("s"), "batches" if name == "batches" else None)
            for name, count in counts.items()
        ]
        print("verified " + ", ".join(named))
    if verified.damages:
        raise typer.Exit(ExitCode.FAILED)


def _disk(directory: str) -> "OsDisk":
    from tidemill.runtime.os_disk import OsDisk

    return OsDisk(directory, read_only=True)

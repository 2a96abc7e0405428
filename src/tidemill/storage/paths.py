"""Names of files and directories in a data directory (`docs/formats/journal.md`)."""

from tidemill.model.timer_logs import ARRIVALS, arrivals_of, is_hidden, kept_of, released_of
from tidemill.model.topic import TopicId

IDENTITY = "identity.json"
IDENTITY_NEW = "identity.json.new"
JOURNAL = "journal"
JOURNAL_NEXT = "journal/next"
TOPICS = "topics"
OFFSET_DIGITS = 20


def journal_file(number: int) -> str:
    return f"{JOURNAL}/{number:08}.journal"


def journal_number(name: str) -> int | None:
    """Return the number in the name of a journal file; None for other names."""
    stem, _, ending = name.partition(".")
    return int(stem) if ending == "journal" and stem.isdigit() else None


def checkpoint_file(number: int) -> str:
    return f"checkpoint-{number % 2}"


def topic_directory(topic_id: TopicId) -> str:
    return f"{TOPICS}/{topic_id.hex()}"


def partition_directory(topic_id: TopicId, partition: int) -> str:
    directory = f"{TOPICS}/{topic_id.hex()}/{released_of(partition)}"
    if is_hidden(partition):
        directory += ".arrivals" if partition & ARRIVALS else ".kept"
    return directory


def partition_number(name: str) -> int:
    """Return the number of the log whose directory has this name within that of its topic."""
    number, _, ending = name.partition(".")
    partition = int(number)
    if not ending:
        return partition
    return {"arrivals": arrivals_of, "kept": kept_of}[ending](partition)


def segment_file(directory: str, base_offset: int, ending: str = "log") -> str:
    return f"{directory}/{base_offset:0{OFFSET_DIGITS}}.{ending}"


def index_file(segment_path: str) -> str:
    """Return the path of a closed segment's index file, which holds its offset index and its time index."""
    return segment_path.removesuffix("log") + "index"


def segment_base(name: str) -> int | None:
    """Return the base offset in the name of a segment or index file; None for other names."""
    stem, _, ending = name.partition(".")
    return int(stem) if ending in ("log", "index") and stem.isdigit() else None

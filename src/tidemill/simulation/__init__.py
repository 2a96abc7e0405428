"""The machine's twins: a disk that loses power, time that stands still."""

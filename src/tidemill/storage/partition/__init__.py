"""The files and the state of one partition."""

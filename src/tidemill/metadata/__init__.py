"""The state machine of the cluster metadata, free of I/O.  Entry point: `metadata.controller`."""

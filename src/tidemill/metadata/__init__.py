"""The cluster's own state machine, pure.  Entrance: `metadata.controller`."""

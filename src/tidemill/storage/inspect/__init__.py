"""Read-only views of a data directory for `tidemill log`."""

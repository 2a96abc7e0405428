"""The `tidemill` command: one file per command group.  Entry point: `cli.main`."""

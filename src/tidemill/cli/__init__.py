"""The `tidemill` command: one file per command group.  Entrance: `cli.main`."""

"""The `tidemill` command, with one module per command.  Entry point: `cli.main`."""

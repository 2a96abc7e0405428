"""The Python client: `connect` and `connect_async`, which `tidemill` exports; `mill` is the entry point."""

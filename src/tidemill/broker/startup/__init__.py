"""How a broker comes up and joins its cluster; `wiring` is the entry point."""

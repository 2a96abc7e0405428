"""Starting a broker and joining a cluster.  The entry point is `wiring`."""

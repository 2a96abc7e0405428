"""Consumer groups of the classic protocol and their committed offsets.  Entry point: `coordinator.group.groups`."""

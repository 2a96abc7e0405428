"""Consumer groups of the classic protocol, and their committed offsets.  Entrance: `coordinator.group.groups`."""

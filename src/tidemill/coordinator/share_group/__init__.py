"""Share groups in the group coordinator; the entry point is `share_groups`."""

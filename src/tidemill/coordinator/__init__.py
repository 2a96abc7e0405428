"""State machines of coordinators, free of I/O: they decide, replay and expire."""

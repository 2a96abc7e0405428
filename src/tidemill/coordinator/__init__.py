"""Group state machines, pure: decide, replay, expire."""

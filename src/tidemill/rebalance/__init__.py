"""Re-placement, pure: which replicas move where, and why.  `planner` is the entry point."""

"""Timer topics: what each replica restores, and how leaders release records; the entry point is `timer_host`."""

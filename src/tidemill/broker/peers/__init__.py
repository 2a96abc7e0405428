"""A broker's connections to its peers, and what it knows about them.  The entry point is `cluster`."""

"""The console: read-only pages about the cluster, for people who operate it.  The entry point is `application`."""

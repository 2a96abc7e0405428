"""Coordinators: run replicated cores on the leaders of their partitions.  Entry point: `coordinator_host`."""

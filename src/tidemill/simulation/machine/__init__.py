"""The simulated machine: disk, event loop, jobs, clock and network."""

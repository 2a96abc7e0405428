"""Implementations of ports on top of the operating system: disk, sockets, threads, clocks and entropy."""

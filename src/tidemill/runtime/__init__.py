"""Implementations of ports with the operating system: disk, sockets, threads, clocks and entropy."""

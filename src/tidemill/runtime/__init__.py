"""The implementations of ports on the operating system: disk, sockets, threads, clocks and entropy."""

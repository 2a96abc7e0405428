"""The only code that uses the operating system: disk, sockets, threads, clocks and entropy."""

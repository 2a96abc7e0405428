"""The clocks of the operating system, and the CPU time of this process."""

import time


class OsClock:
    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def monotonic_us(self) -> int:
        return time.monotonic_ns() // 1_000


def process_cpu_us() -> int:
    """Return the CPU time that all threads of this process have used, in microseconds."""
    return time.process_time_ns() // 1_000

"""The memory that a process uses for one input."""

from __future__ import annotations

import os
import resource


class Memory:
    """The memory of this process in KiB: `peak` since `forget_peak`, and `now`."""

    def __init__(self) -> None:
        try:
            self._status = os.open("/proc/self/status", os.O_RDONLY)
            self._clear = os.open("/proc/self/clear_refs", os.O_WRONLY)
            os.write(self._clear, b"5")
            self.is_exact = True
        except OSError:
            self.is_exact = False

    def forget_peak(self) -> None:
        if self.is_exact:
            os.pwrite(self._clear, b"5", 0)

    def measure(self) -> tuple[int, int]:
        """Return the memory now and at its peak; the latter only on systems without the former."""
        if not self.is_exact:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return peak, peak
        _, _, text = os.pread(self._status, 4096, 0).partition(b"VmHWM:")
        most, _, text = text.partition(b"kB\nVmRSS:")
        return int(text.partition(b"kB")[0]), int(most)

"""How a worker ended, in numbers and in words."""

import signal as signals
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Exit:
    """One of code and signal is set; neither, nor the peak, if the nursery was lost before it could tell."""

    code: int | None
    signal: int | None
    peak_rss_bytes: int | None

    def in_words(self) -> str:
        """Completes a sentence that begins with the process."""
        if self.signal is not None:
            return f"was killed by {_name(self.signal)}"
        if self.code is not None:
            return f"exited with code {self.code}"
        return "ended with the process that looks after the workers"


def _name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"

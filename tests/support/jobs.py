"""Background jobs of a kernel under test, as a user submits and watches them."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.support.kernel import CellError, Kernel, Result, Running


@dataclass
class Submitted:
    """`cell` has ended; what it shows later is its `late`."""

    kernel: Kernel
    number: int
    cell: Running

    def wait(self) -> Result:
        return self.kernel.ok(f"%wool wait {self.number}")

    def sentence(self) -> str:
        """Of its state."""
        return next(
            line
            for line in self.kernel.ok("%wool jobs", store_history=False).stdout.splitlines()
            if line.startswith(f"job {self.number} ")
        )

    def end(self) -> str:
        self.kernel.run(f"%wool wait {self.number}")
        return self.sentence()

    def error(self) -> CellError:
        """Under its own cell."""
        error = self.cell.late(lambda shown: shown.error).error
        assert error is not None
        return error


def submit(kernel: Kernel, body: str, options: str = "", *, above: str = "") -> Submitted:
    cell = kernel.begin(f"{above}%%wool --bg {options}\n{body}")
    result = cell.result()
    assert result.status == "ok", result
    return Submitted(kernel, int(re.search(r"wool: job (\d+) ", result.text("display"))[1]), cell)


class Gate:
    """A file that a job waits for."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def wait(self) -> str:
        return f"while not __import__('os').path.exists({str(self.path)!r}): __import__('time').sleep(0.01)\n"

    def open(self) -> None:
        self.path.touch()

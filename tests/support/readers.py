"""A process that maps files of large data and holds them: `python -m tests.support.readers`, a command a line, an answer each."""

import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wool_jupyter.wire import layout, mappings
from wool_jupyter.wire.buffers import Ref


class Reader:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.pid = process.pid

    def _ask(self, *words: object) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        return self._process.stdout.readline().strip()

    def map(self, ref: Ref) -> str:
        """`mapped`, or the error's class. Nothing of it has been looked at."""
        return self._ask("map", ref.file, ref.offset, ref.length)

    def fork(self) -> str:
        """From now on a child answers, and its parent has let go of everything."""
        self.pid = int(self._ask("fork"))
        return "forked"

    def drop(self, number: int) -> str:
        return self._ask("drop", number)

    def clear(self) -> None:
        """Drops everything."""
        self._ask("clear")

    def contents(self) -> list[set[int]]:
        """Which bytes begin the pages of each that was mapped and not dropped; nobody has looked at them before."""
        return [set(map(int, each.split(","))) for each in self._ask("contents").split(";") if each]

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def reader() -> Iterator[Reader]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.readers"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        yield Reader(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


def _serve() -> None:
    held: list[memoryview | None] = []
    for line in sys.stdin:
        command, *words = line.split()
        match command:
            case "map":
                try:
                    idle = layout.idle_beside(str(Path(words[0]).parent))
                    held.append(mappings.mapped(words[0], int(words[1]), int(words[2]), idle=idle))
                    answer = "mapped"
                except OSError as error:
                    answer = type(error).__name__
            case "fork":
                if (child := os.fork()) != 0:
                    held.clear()
                    os.waitpid(child, 0)
                    os._exit(0)
                answer = str(os.getpid())
            case "clear":
                held.clear()
                answer = "cleared"
            case "drop":
                held[int(words[0])] = None
                answer = "dropped"
            case _:
                answer = ";".join(
                    ",".join(map(str, set(bytes(view[:: mmap.PAGESIZE])))) for view in held if view is not None
                )
        print(answer, flush=True)


if __name__ == "__main__":
    _serve()

"""Run a notebook in a real kernel and print each cell with its outputs as soon as it is done: `show.py NOTEBOOK`."""

import argparse
import re
import sys
import time
from pathlib import Path

import nbformat
from ipykernel.kernelspec import get_kernel_dict
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from traitlets import default

ANSI = re.compile(r"\x1b\[[0-9;]*m")
BOLD, DIM, RED = "1", "2", "31"


class ThisInterpreter(KernelSpecManager):
    """Every kernel name means ipykernel on this very interpreter, whatever kernels the machine has registered."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return KernelSpec(name=kernel_name, **get_kernel_dict())


class Kernel(AsyncKernelManager):
    """A kernel on this interpreter. The client makes it, so the client also ends it."""

    @default("kernel_spec_manager")
    def _on_this_interpreter(self) -> KernelSpecManager:
        return ThisInterpreter(parent=self)


def client_for(path: Path, **hooks) -> NotebookClient:
    """A client that runs the notebook at `path` in its own folder. `execute()` ends the kernel too."""
    return NotebookClient(
        nbformat.read(path, as_version=4),
        kernel_name="python3",
        kernel_manager_class=Kernel,
        timeout=600,
        extra_arguments=["--log-level=ERROR"],  # ipykernel 7.4 warns of every kernel on the loopback
        resources={"metadata": {"path": str(path.parent)}},
        **hooks,
    )


def as_text(output) -> str:
    """One output as a terminal can show it, without a line end."""
    if output.output_type == "stream":
        text = output.text
    elif output.output_type == "error":
        text = "\n".join(output.traceback) or f"{output.ename}: {output.evalue}"
    else:
        text = "\n".join(_parts(output.data))
    return text.rstrip("\n")


def _parts(data) -> list[str]:
    figures = [
        f"[figure: {mime}, {max(1, round(_size_bytes(mime, body) / 1000))} kB]"
        for mime, body in data.items()
        if mime.startswith("image/")
    ]
    return figures or [data.get("text/plain") or f"[{', '.join(data)}]"]


def _size_bytes(mime: str, body: str) -> int:
    return len(body) if mime == "image/svg+xml" else len(body) * 3 // 4


class Printer:
    """Prints to the terminal, with colours only if it is one."""

    def __init__(self) -> None:
        self.colours = sys.stdout.isatty()
        self.cells = 0

    def style(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours else text

    def started(self, cell, **_) -> None:
        if cell.cell_type == "code":
            self.cells += 1
            first, *rest = cell.source.splitlines() or [""]
            lines = [f"In [{self.cells}]: {first}", *(f"        {line}".rstrip() for line in rest)]
            print(self.style("\n".join(lines), BOLD), flush=True)
        else:
            print(self.style(cell.source, DIM), end="\n\n", flush=True)

    def finished(self, cell, **_) -> None:
        for output in cell.outputs:
            text = as_text(output) if self.colours else ANSI.sub("", as_text(output))
            wrong = output.output_type == "error" or output.get("name") == "stderr"
            for line in text.splitlines():
                print(self.style("  │ ", RED if wrong else DIM) + line)
        print(flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebook", type=Path)
    path = parser.parse_args().notebook
    if not path.is_file():
        parser.error(f"there is no notebook at {path}")
    printer = Printer()
    client = client_for(path, on_cell_start=printer.started, on_cell_executed=printer.finished)
    began = time.monotonic()
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as problem:
        reason = problem.ename if isinstance(problem, CellExecutionError) else str(problem).strip().splitlines()[0]
        print(printer.style(f"{path.name}: stopped at code cell {printer.cells}: {reason}", RED))
        return 1
    print(
        printer.style(
            f"{path.name}: {printer.cells} code cells ran in {time.monotonic() - began:.0f} s, no errors", BOLD
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

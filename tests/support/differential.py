"""The same cells once plainly and once with `%%wool` on top: all that can be seen afterwards has to be the same.

A side is a kernel of its own. What it shows and leaves is flat, `{place: text}`, so that a difference has a place:

    cell 2.status         cell 2.output[0]       cell 2.error
    cell 2.late            cell 2.widgets[0].state['value']
    after 2.names.data[0]                        a variable, as `graph` describes it
    after 2.state.environ['HOME']                the process, as `state` reads it
    after 2.error.args[0]                        `sys.last_value`
    files.out.txt                                what lies in the working directory
"""

import itertools
import json
import os
import re
import shutil
import textwrap
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import monotonic

from tests.support.cases import Case, Cell
from tests.support.kernel import TIMEOUT_S, CommMessage, Kernel, Output, Result, Running, plain, wool

Places = dict[str, str]
Difference = dict[str, tuple[str, str]]  # place -> (plain, under %%wool)

_PREPARED = """
import os, random, sys
import numpy
os.chdir({directory!r}); sys.argv[:] = ["prog"]; random.seed(0); numpy.random.seed(0)
del os, random, sys, numpy
"""
_STREAMS = ("stdout", "stderr")
NOTHING = "(nothing)"
_NOTICE = re.compile(r"^wool: (.*)\n?", re.MULTILINE)
_SHELL_FRAME = re.compile(
    r"^[ |]*File \".*/IPython/.*\n.*\n(?:[ |^]*\n)?", re.MULTILINE
)  # above the cell's, in a group's traceback
_PASSING = re.compile(
    r"(?<= at )0x[0-9a-f]+|0x[0-9a-f]{6,}|/tmp/ipykernel_\d+/\d+\.py|<ipython-input[^>\s]*>|\b\d{6,}\.py\b"
    r"|(?<=\bT_)[0-9a-f]{5}(?![0-9a-f])"  # a pandas style
    r"|(?<=[\"#])[pm][0-9a-f]{10}\b|(?<=<dc:date>)[^<]*"  # matplotlib's SVG
)
_ID = re.compile(r"(?<![0-9a-fA-F])(?:[0-9a-f]{16}){1,2}(?![0-9a-fA-F])")  # of displays, comms and widgets


class Side:
    """One kernel. Cases run in `directory`, which is emptied before each."""

    def __init__(self, kernel: Kernel, directory: Path, *, is_wool: bool) -> None:
        self.kernel, self.directory, self._is_wool = kernel, directory, is_wool

    def run(self, case: Case) -> tuple[Places, list[str]]:
        """What was seen, and the notices of the product."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        self.kernel.reset()
        self.kernel.ok(_PREPARED.format(directory=str(self.directory)), store_history=False)
        places: Places = {}
        notices: list[str] = []
        ran: list[Running] = []
        for number, cell in enumerate(case.cells, start=1):
            kind = wool if cell.is_wool and self._is_wool else plain
            asks = {} if case.answers is None else {"allow_stdin": True, "answers": case.answers}
            ran.append(self.kernel.begin(textwrap.dedent(kind(cell.source, above=cell.above)), **asks))
            seen = _seen(ran[-1].result(), notices, is_ordered=case.is_ordered)
            places |= {f"cell {number}.{place}": text for place, text in seen.items()}
            if cell.is_wool:
                left = self._left()
                places |= {
                    f"after {number}.{kind}.{place}": text for kind in left for place, text in left[kind].items()
                }
        places |= self._late(ran, case.late) | self._files()
        masks = Masks(case.mask, str(self.directory))
        return {place: masks.applied(text) for place, text in places.items()}, notices

    def _late(self, ran: list[Running], until: str) -> Places:
        deadline = monotonic() + TIMEOUT_S
        while until and not any(until in each.late_text() + each.result().text(*_STREAMS) for each in ran):
            if monotonic() > deadline:
                raise AssertionError(f"{until!r} has not come")
            self.kernel.take_strays()
        late = {f"cell {number}.late": each.late_text() for number, each in enumerate(ran, start=1)}
        return {place: repr(text) for place, text in late.items() if text}

    def _left(self) -> dict[str, Places]:
        file = self.directory.with_suffix(".json")
        self.kernel.ok(
            f"__import__('suite_graph').observe({str(file)!r}, state=__import__('suite_state').read())",
            store_history=False,
        )
        found: dict[str, Places] = json.loads(file.read_text(encoding="utf-8"))
        return found

    def _files(self) -> Places:
        files = (
            path for path in sorted(self.directory.rglob("*")) if path.is_file() and "__pycache__" not in path.parts
        )
        return {f"files.{path.relative_to(self.directory)}": repr(path.read_bytes()[:1000]) for path in files}


class Masks:
    """Hide what differs between two runs of the same cell in one process, too. An id is numbered by where it is met first."""

    def __init__(self, pattern: str, directory: str) -> None:
        self._pattern = re.compile(pattern or r"(?!)")
        self._directory = directory
        self._ids: dict[str, str] = {}

    def applied(self, text: str) -> str:
        text = _ID.sub(lambda id_: self._ids.setdefault(id_[0], f"<id {len(self._ids) + 1}>"), text)
        return self._pattern.sub("…", _PASSING.sub("…", text)).replace(self._directory, "/work")


def _seen(result: Result, notices: list[str], *, is_ordered: bool) -> Places:
    found = {"status": result.status, "count": str(result.execution_count), "payload": repr(result.payload)}
    outputs = []
    for output in result.outputs if is_ordered else _streams_in_order(result.outputs):
        text = output.text
        if output.kind == "stderr":
            notices += _NOTICE.findall(text)
            text = _SHELL_FRAME.sub("", _NOTICE.sub("", text))
        if text or output.kind not in ("stdout", "stderr"):
            outputs.append(replace(output, text=text))
    for i, output in enumerate(_without_gaps(outputs)):
        found[f"output[{i}]"] = repr((output.kind, output.text, output.metadata, output.transient))
        found |= {f"output[{i}].{mime}": repr(data) for mime, data in output.data.items()}
    if result.error is not None:
        found["error"] = repr((result.error.ename, result.error.evalue))
    return found | _widgets(result.comms)


def _without_gaps(outputs: list[Output]) -> list[Output]:
    """Where a notice has been taken out between two texts of one stream."""
    result = Result()
    for output in outputs:
        result.add(output)
    return result.outputs


def _widgets(messages: list[CommMessage]) -> Places:
    """How each comm ends, in the order in which they were opened: how often it was told depends on the time."""
    ends: dict[str, Places] = {}
    for message in messages:
        end = ends.setdefault(message.comm, {})
        end |= {"target": message.target, "comm": message.comm} if message.kind == "comm_open" else {}
        state = message.data.get("state", {})
        end |= {f"state[{name!r}]": repr(value) for name, value in state.items()}
        if message.kind == "comm_close":
            end["closed"] = "True"
        elif state == {}:
            end["custom"] = end.get("custom", "") + repr(message.data)
    return {f"widgets[{i}].{place}": text for i, end in enumerate(ends.values()) for place, text in end.items()}


def _streams_in_order(outputs: list[Output]) -> list[Output]:
    """A kernel gathers each stream for a moment: between two displays, first all of one and then all of the other."""
    found: list[Output] = []
    for is_text, group in itertools.groupby(outputs, key=lambda output: output.kind in _STREAMS):
        if not is_text:
            found += group
            continue
        texts = [(output.kind, output.text) for output in group]
        found += [Output(kind, text) for kind in _STREAMS if (text := "".join(t for k, t in texts if k == kind))]
    return found


class Pair:
    """Two kernels that are alike, one of them with a pool."""

    def __init__(self, directory: Path) -> None:
        self._kernels: list[Kernel] = []
        # An order of sets that both sides have in common: a worker has the variables of its kernel.
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        environment.pop("PYTEST_CURRENT_TEST", None)  # ipykernel would leave out what children write
        self.sides = []
        for is_wool, kernel_name in ((False, "one"), (True, "two")):
            kernel = Kernel(env=environment)
            self._kernels.append(kernel)
            # What a library does when it is loaded is done.
            kernel.ok("import numpy, pandas, matplotlib.pyplot\n%matplotlib inline\n%load_ext wool_jupyter")
            if is_wool:
                kernel.ok("%wool start")
            kernel.ok("__import__('suite_state').remember()")
            self.sides.append(Side(kernel, directory / kernel_name, is_wool=is_wool))

    def differences(self, case: Case) -> tuple[Difference, list[str]]:
        """And the notices of the product."""
        with ThreadPoolExecutor(len(self.sides)) as threads:
            (plainly, _), (woolly, notices) = threads.map(lambda side: side.run(case), self.sides)
        return difference(plainly, woolly), notices

    def same(self, cell: str, *, before: Iterable[str] = (), after: Iterable[str] = ()) -> None:
        """All that is seen is the same, and there is no notice. One side after the other: both may use the files of a test."""
        sources = [(each, False) for each in before], [(cell, True)], [(each, False) for each in after]
        case = Case("", tuple(Cell(textwrap.dedent(source), is_wool) for part in sources for source, is_wool in part))
        (plainly, _), (woolly, notices) = (side.run(case) for side in self.sides)
        seen = {place: pair for place, pair in difference(plainly, woolly).items() if place.startswith("cell")}
        assert not (wrong := verdict(case, seen, notices, "")), wrong

    def close(self) -> None:
        for kernel in self._kernels:
            kernel.shutdown(now=True)


def difference(plainly: Places, woolly: Places) -> Difference:
    places = dict.fromkeys([*plainly, *woolly])
    both = ((place, plainly.get(place, NOTHING), woolly.get(place, NOTHING)) for place in places)
    return {place: (one, other) for place, one, other in both if one != other}


def verdict(case: Case, found: Difference, notices: list[str], readme: str) -> str:
    """What is wrong, in words; "" for nothing."""
    wrong = []
    unknown = {place: pair for place, pair in found.items() if not _is_known(case, place)}
    wrong += [f"{place}\n    plain   {one}\n    %%wool  {other}" for place, (one, other) in unknown.items()]
    wrong += [
        f"the known difference `{pattern}` does not happen any more"
        for pattern in case.known
        if not any(_matches(place, pattern) for place in found)
    ]
    if case.known and not case.says and not case.notices:
        wrong.append("a known difference needs the sentence that says so")
    if case.says and _flat(case.says) not in _flat(readme):
        wrong.append(f"the README does not say {case.says!r}")
    wrong += [f"not said: {said}" for said in case.notices if not any(said in notice for notice in notices)]
    wrong += [f"said: {notice}" for notice in notices if not any(said in notice for said in case.notices)]
    return "\n".join(wrong)


def _is_known(case: Case, place: str) -> bool:
    return any(_matches(place, pattern) for pattern in case.known)


def _matches(place: str, pattern: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), place, re.DOTALL) is not None


def _flat(text: str) -> str:
    return re.sub(r"[\s*`]+", " ", text)

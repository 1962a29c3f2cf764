"""Files of cells to be run twice: `*.cells`, one for each theme.

    cells that run at the beginning of every case of the file

    # === what the case shows
    # known: names.gen, cell 1.*
    # says: A sentence of the README.
    # notice: `gen` (generator) can't be shipped
    cells that prepare
    # %%wool
    the cell that runs plainly on one side, and under the magic on the other
    # %%wool below %%time
    the same, with a magic above it on both sides
    # %%
    a plain cell that looks at what it has left

Without `known`, both sides have to be the same. With it, they have to differ in these places (`*` is any text), and in no
others; `says` is where the user reads of it, `notice` is what the cell says. Of what is shown:

    # answers: Ada, 36       a front end that answers each question of a cell; without it there is none
    # order: exact           the cells flush whenever they change the stream, so that its order is a kernel's, too
    # late: text             is awaited when all cells have run; it stands at the cell that it has come for
    # mask: regex            what differs from run to run
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Cell:
    source: str
    is_wool: bool
    above: str = ""  # a magic that the cell stands under


@dataclass(frozen=True)
class Case:
    title: str
    cells: tuple[Cell, ...]
    known: tuple[str, ...] = ()  # patterns of the places
    says: str = ""  # in the README
    notices: tuple[str, ...] = ()  # beginnings of what the cell says in lines of its own
    answers: tuple[str, ...] | None = None  # to each cell's questions; None: nobody answers
    is_ordered: bool = False
    late: str = ""
    mask: str = ""


_CASE = re.compile(r"^# === (.*)$", re.MULTILINE)
_CELL = re.compile(r"^# (%%(?:wool(?: below %%.*)?)?)$", re.MULTILINE)
_HEAD = re.compile(r"# (known|says|notice|answers|order|late|mask): ?(.*)\n")


def read(file: Path) -> list[Case]:
    shared, *parts = _CASE.split(file.read_text(encoding="utf-8"))
    found = [_case(title, shared, body) for title, body in zip(parts[::2], parts[1::2], strict=True)]
    titles = [case.title for case in found]
    if twice := {title for title in titles if titles.count(title) > 1}:
        raise ValueError(f"{file.name} has two cases of one name: {twice}")
    return found


def _case(title: str, shared: str, body: str) -> Case:
    head: dict[str, list[str]] = {
        "known": [],
        "says": [],
        "notice": [],
        "answers": [],
        "order": [],
        "late": [],
        "mask": [],
    }
    body = body.lstrip("\n")
    while line := _HEAD.match(body):
        head[line[1]].append(line[2])
        body = body[line.end() :]
    first, *rest = _CELL.split(body)
    cells = [Cell(text, False) for text in (shared, first) if _has_code(text)]
    for mark, text in zip(rest[::2], rest[1::2], strict=True):
        wool, _, above = mark.partition(" below ")
        cells.append(Cell(text[1:], wool == "%%wool", above))
    if not any(cell.is_wool for cell in cells):
        raise ValueError(f"{title}: no cell of it is marked `# %%wool`")
    known = tuple(pattern.strip() for line in head["known"] for pattern in line.split(","))
    return Case(
        title,
        tuple(replace(cell, source=cell.source.rstrip()) for cell in cells),
        known,
        " ".join(head["says"]),
        tuple(head["notice"]),
        tuple(answer for line in head["answers"] for answer in line.split(", ")) if head["answers"] else None,
        head["order"] == ["exact"],
        "".join(head["late"]),
        "".join(head["mask"]),
    )


def _has_code(text: str) -> bool:
    return any(line.strip() and not line.startswith("#") for line in text.splitlines())

"""Files of cells to be run twice: `*.cells`, one for each theme.

    cells that run at the beginning of every case of the file

    # === what the case shows
    # known: names.gen, cell 1.*
    # says: A sentence of the README.
    # notice: `gen` (generator) can't be shipped
    cells that prepare
    # %%wool
    the cell that runs plainly on one side, and under the magic on the other
    # %%
    a plain cell that looks at what it has left

Without `known`, both sides have to be the same. With it, they have to differ in these places (`*` is any text), and in no
others; `says` is where the user reads of it, `notice` is what the cell says.
"""

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cell:
    source: str
    is_wool: bool


@dataclass(frozen=True)
class Case:
    title: str
    cells: tuple[Cell, ...]
    known: tuple[str, ...] = ()  # patterns of the places
    says: str = ""  # in the README
    notices: tuple[str, ...] = ()  # beginnings of what the cell says in lines of its own


_CASE = re.compile(r"^# === (.*)$", re.MULTILINE)
_CELL = re.compile(r"^# (%%(?:wool)?)$", re.MULTILINE)
_HEAD = re.compile(r"# (known|says|notice): (.*)\n")


def read(file: Path) -> list[Case]:
    shared, *parts = _CASE.split(file.read_text(encoding="utf-8"))
    found = [_case(title, shared, body) for title, body in zip(parts[::2], parts[1::2], strict=True)]
    titles = [case.title for case in found]
    if twice := {title for title in titles if titles.count(title) > 1}:
        raise ValueError(f"{file.name} has two cases of one name: {twice}")
    return found


def _case(title: str, shared: str, body: str) -> Case:
    head: dict[str, list[str]] = {"known": [], "says": [], "notice": []}
    body = body.lstrip("\n")
    while line := _HEAD.match(body):
        head[line[1]].append(line[2])
        body = body[line.end() :]
    first, *rest = _CELL.split(body)
    cells = [Cell(text, False) for text in (shared, first) if _has_code(text)]
    cells += [Cell(text[1:], mark == "%%wool") for mark, text in zip(rest[::2], rest[1::2], strict=True)]
    if not any(cell.is_wool for cell in cells):
        raise ValueError(f"{title}: no cell of it is marked `# %%wool`")
    known = tuple(pattern.strip() for line in head["known"] for pattern in line.split(","))
    return Case(
        title,
        tuple(Cell(c.source.rstrip(), c.is_wool) for c in cells),
        known,
        " ".join(head["says"]),
        tuple(head["notice"]),
    )


def _has_code(text: str) -> bool:
    return any(line.strip() and not line.startswith("#") for line in text.splitlines())

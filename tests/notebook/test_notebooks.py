"""Every notebook runs in a real kernel, and shows what its tags say."""

import ast
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SHOWS = "shows:"

every_notebook = pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in NOTEBOOKS])


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown_texts(cell):
    return [tag.removeprefix(SHOWS) for tag in cell.metadata.get("tags", []) if tag.startswith(SHOWS)]


@pytest.mark.timeout(300)
@every_notebook
def test_cells_show_what_their_tags_say(path):
    show = SimpleNamespace(**runpy.run_path(str(ROOT / "notebooks" / "show.py")))

    ran = show.client_for(path).execute()

    for cell in code_cells(ran):
        shown = show.ANSI.sub("", "\n".join(show.as_text(output) for output in cell.outputs))
        for text in shown_texts(cell):
            assert text in shown, f"cell {cell.id} should show {text!r}"


def test_there_are_notebooks():
    assert NOTEBOOKS


@every_notebook
def test_notebook_is_valid(path):
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    nbformat.validate(notebook)


@every_notebook
def test_outputs_are_stripped(path):
    for cell in code_cells(nbformat.read(path, as_version=4)):
        assert (cell.outputs, cell.execution_count) == ([], None), cell.id


@every_notebook
def test_notebook_is_short(path):
    assert len(nbformat.read(path, as_version=4).cells) <= 12


@every_notebook
def test_cell_ids_are_unique(path):
    ids = [cell.id for cell in nbformat.read(path, as_version=4).cells]
    assert len(set(ids)) == len(ids)


@every_notebook
def test_last_cell_asserts(path):
    last = nbformat.read(path, as_version=4).cells[-1]
    assert last.cell_type == "code"
    assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(last.source)))


def test_quick_start_is_the_beginning_of_the_first_notebook():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    quick_start = re.search(r"^## Quick start\n(.*?)^## ", readme, re.MULTILINE | re.DOTALL)
    assert quick_start
    blocks = re.findall(r"^```python\n(.*?)\n```$", quick_start[1], re.MULTILINE | re.DOTALL)
    cells = [
        cell.source for cell in code_cells(nbformat.read(ROOT / "notebooks" / "01-first-cell.ipynb", as_version=4))
    ]

    assert len(blocks) >= 2
    assert blocks == cells[: len(blocks)]

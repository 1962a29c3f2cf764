"""What `pip install` brings."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = "share/jupyter/labextensions/wool-jupyter-labextension/"


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Of the files in a wheel that was built where there is no Node; those that go beside the package from `share/` on."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(command, check=True, env={**os.environ, "PATH": str(folder)}, timeout=100)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name.partition(".data/data/")[2] or name for name in archive.namelist()}


def test_a_wheel_brings_the_extension_to_where_jupyterlab_looks(names):
    built = ROOT / "wool_jupyter" / "labextension"
    load = json.loads((built / "package.json").read_text(encoding="utf-8"))["jupyterlab"]["_build"]["load"]
    assert {SHARED + "package.json", SHARED + "install.json", SHARED + load} <= names
    assert {SHARED + path.relative_to(built).as_posix() for path in built.rglob("*") if path.is_file()} <= names


def test_a_wheel_brings_the_widget_and_no_sources_of_the_browser_side(names):
    assert {"wool_jupyter/notebook/static/widget.js", "wool_jupyter/notebook/static/widget.css"} <= names
    assert not [name for name in names if name.endswith(".ts") or "node_modules" in name]
    assert not [name for name in names if name.startswith("wool_jupyter/labextension")]  # it is there once

"""The files around the package agree with it."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from wool_jupyter.wire.protocol import package_version

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "wool_jupyter"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

VERBS = set(re.findall(r"^([a-z-]+):.* ## ", MAKEFILE, re.MULTILINE))
FOLDERS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
NOT_RUN_BY_MAKE_TEST = {"benchmarks", "browser", "support"}


def layers():
    """The modules that the layer contract places, from high to low."""
    contract = next(each for each in PROJECT["tool"]["importlinter"]["contracts"] if each["type"] == "layers")
    return [name.strip() for layer in contract["layers"] for name in layer.split("|")]


def requirements():
    extras = PROJECT["project"]["optional-dependencies"].values()
    lines = PROJECT["project"]["dependencies"] + [line for extra in extras for line in extra]
    return sorted({re.split(r"[\[<>=!~ ]", line)[0] for line in lines} - {PROJECT["project"]["name"]})


@pytest.mark.parametrize("name", layers())
def test_every_layer_exists(name):
    assert (PACKAGE / name / "__init__.py").is_file() or (PACKAGE / f"{name}.py").is_file()


@pytest.mark.parametrize("name", FOLDERS)
def test_readme_maps_every_folder_of_the_package(name):
    assert re.search(rf"^\| `{name}/` \| \S", README, re.MULTILINE)


def test_readme_maps_no_folder_that_is_missing():
    assert set(re.findall(r"^\| `(\w+)/` \|", README, re.MULTILINE)) == set(FOLDERS)


@pytest.mark.parametrize("name", requirements())
def test_readme_gives_a_reason_for_every_dependency(name):
    assert re.search(rf"^\|([^|]*\|)?[^|]*`{re.escape(name)}`[^|]*\| \w", README, re.MULTILINE)


def test_verbs_named_in_the_readme_exist():
    code = re.findall(r"```.*?```|`[^`\n]+`", README, re.DOTALL)
    named = {verb for span in code for verb in re.findall(r"\bmake ([a-z-]+)", span)}
    assert named
    assert named <= VERBS


def test_every_verb_is_phony():
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony
    assert set(phony[1].split()) == VERBS


def test_every_test_is_run_by_make_test():
    folders = {path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").rglob("test_*.py")}
    named = set(re.findall(r"\btests/(\w+)", MAKEFILE))
    assert folders - NOT_RUN_BY_MAKE_TEST <= named


def test_changelog_begins_with_what_is_unreleased():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", changelog, re.MULTILINE)
    assert headings[:2] == ["Changelog", "[Unreleased]"]
    kinds = set(re.findall(r"^### (.*)$", changelog, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


@pytest.mark.parametrize("folder", ["labextension", "wool_jupyter/labextension"])
def test_what_the_browser_shows_has_the_version_of_the_package(folder):
    package = json.loads((ROOT / folder / "package.json").read_text(encoding="utf-8"))
    assert package["version"] == PROJECT["project"]["version"]


def test_a_worker_says_the_version_of_the_package():
    assert package_version() == PROJECT["project"]["version"]


def test_the_entry_of_the_built_extension_is_there():
    built = PACKAGE / "labextension"
    package = json.loads((built / "package.json").read_text(encoding="utf-8"))
    assert (built / package["jupyterlab"]["_build"]["load"]).is_file()


def test_lock_files_name_no_registry():
    assert '"resolved"' not in (ROOT / "labextension" / "package-lock.json").read_text(encoding="utf-8")


def test_each_test_file_has_a_name_of_its_own():
    """Two of one name can't be collected in one run."""
    names = [path.name for path in (ROOT / "tests").glob("*/test_*.py")]
    assert sorted(names) == sorted(set(names))

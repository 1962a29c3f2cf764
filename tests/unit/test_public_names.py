import ast
import importlib
import importlib.util
import pkgutil
import subprocess
import sys
import tomllib
import typing
from pathlib import Path

import pytest

import wool_jupyter

# What other documents and other people's code rely on.
FIXED = """
    LocalDiscovery DiscoveryLike DiscoveryPublisherLike DiscoverySubscriberLike DiscoveryEvent
    WorkerMetadata WorkerConnection WorkerProxy WorkerPool LoadBalancerLike LoadBalancerContext LoadBalancerContextView
    ChannelOptions RoundRobinLoadBalancer Fanout FanoutConsumer SubscriberMeta ResourcePool afilter routine dashboard
""".split()


def for_type_checkers():
    """Each name that the package shows them, and the module that it says has it."""
    tree = ast.parse(Path(wool_jupyter.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [
        node for node in block.body if isinstance(node, ast.ImportFrom) and node.module.startswith("wool_jupyter.")
    ]
    return {alias.name: node.module for node in imports for alias in node.names}


def raised_or_warned():
    """Each class of the package that leaves it by `raise` or `warn`: who wants to catch it needs its name."""
    found = set()
    for module in pkgutil.walk_packages(wool_jupyter.__path__, "wool_jupyter."):
        tree = ast.parse(Path(importlib.util.find_spec(module.name).origin).read_text(encoding="utf-8"))
        for made in (node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")):
            kind = getattr(importlib.import_module(module.name), made.name)
            if issubclass(kind, Exception):
                found.add(made.name)
    return found


def test_all_fixed_names_and_every_error_and_warning_are_offered():
    raised = raised_or_warned()
    assert raised > {"WorkerDied", "StartFailed", "CallFailed", "RpcError", "FidelityWarning"}
    assert set(wool_jupyter.__all__) == set(FIXED) | raised


def test_types_of_the_fields_of_a_record_are_offered():
    hints = typing.get_type_hints(wool_jupyter.WorkerMetadata).values()
    assert {kind.__name__ for kind in hints if kind.__module__.startswith("wool_jupyter")} <= set(wool_jupyter.__all__)


def test_type_checkers_are_shown_what_is_offered():
    shown = for_type_checkers()
    assert sorted(shown) == wool_jupyter.__all__
    for name, module in shown.items():
        assert getattr(wool_jupyter, name) is getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("name", wool_jupyter.__all__)
def test_a_name_is_what_it_is_called(name):
    offered = getattr(wool_jupyter, name)
    assert offered.__name__ == name
    assert name in dir(wool_jupyter)


def test_it_tells_its_version_as_packages_do():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert wool_jupyter.__version__ == project["project"]["version"]


def test_what_is_not_offered_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'wool_jupyter' has no attribute 'Crew'"):
        _ = wool_jupyter.Crew
    assert not hasattr(wool_jupyter, "_MISSING")


def loaded_by(code):
    looked_for = ("wool_jupyter.", "grpc", "asyncio", "watchdog")
    script = f"{code}\nimport sys\nprint(*(name for name in sys.modules if name.startswith({looked_for})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_of_it():
    assert loaded_by("import wool_jupyter; dir(wool_jupyter)") == set()


def test_loading_the_extension_imports_no_pool():
    shell = "from IPython.core.interactiveshell import InteractiveShell"
    loaded = loaded_by(f"{shell}\nInteractiveShell().extension_manager.load_extension('wool_jupyter')")
    assert "wool_jupyter.notebook.magics" in loaded
    assert not {name for name in loaded if name.startswith(("wool_jupyter.pool", "wool_jupyter.dispatch", "grpc"))}


def test_a_pool_begins_before_the_rest_of_it_is_imported():
    """Its first worker starts meanwhile."""
    loaded = loaded_by("import wool_jupyter.notebook.runtime")
    assert "wool_jupyter.pool.processes" in loaded
    late = ("wool_jupyter.pool.kernel_pool", "wool_jupyter.dispatch", "wool_jupyter.notebook.feed", "watchdog", "grpc")
    assert not {name for name in loaded if name.startswith(late)}


@pytest.mark.parametrize(
    ("name", "tells"),
    [
        ("wool_jupyter", ["Run a heavy notebook cell in a worker process"]),
        ("wool_jupyter.pool", ["wool_jupyter.pool()", "`submit`, `map` and `executor` run functions on the workers"]),
        ("wool_jupyter.dashboard", ["wool_jupyter.dashboard()", "This notebook's pool: its workers"]),
    ],
)
def test_ipython_shows_what_a_name_is_for(name, tells):
    """Also before anything of the pool is imported."""
    code = (
        "import wool_jupyter\nfrom IPython.core.interactiveshell import InteractiveShell\nshell = InteractiveShell.instance()\n"
        f"shell.user_ns['wool_jupyter'] = wool_jupyter\nprint(shell.object_inspect_text({name!r}))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert all(text in shown for text in tells), shown
    assert "Class docstring" not in shown
    assert "property" not in shown


def test_a_name_imports_what_it_needs_and_no_more():
    loaded = loaded_by("from wool_jupyter import WorkerMetadata, NoWorkersAvailable")
    assert loaded == {"wool_jupyter.records", "wool_jupyter.errors"}


def test_what_is_logged_is_shown_to_nobody_who_has_not_asked():
    code = "import logging, wool_jupyter; logging.getLogger('wool_jupyter.pool').warning('said')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")

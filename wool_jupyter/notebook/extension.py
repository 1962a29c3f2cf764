"""What `%load_ext` does, or a pool that code starts in a notebook, and how it is undone. Nothing heavy is imported: loading stays
instant."""

import sys
from typing import TYPE_CHECKING

from traitlets import TraitError

from wool_jupyter.notebook import comment_form, completion, help_form, joblib_offer
from wool_jupyter.notebook.lab_link import LabLink
from wool_jupyter.notebook.magics import Wool
from wool_jupyter.notebook.on_demand import loaded_runtime

if TYPE_CHECKING:
    from ipykernel.ipkernel import IPythonKernel
    from IPython.core.interactiveshell import InteractiveShell


_lab: LabLink | None = None


def load(shell: "InteractiveShell") -> None:
    """Idempotent: the options of the magics stay what they are."""
    global _lab
    if hasattr(shell, "notebook_is_elsewhere") or Wool.__name__ in shell.magics_manager.registry:
        return
    wool = _made(shell)
    shell.register_magics(wool)
    comment_form.load(shell)
    help_form.load(shell)
    completion.install(shell, wool)
    kernel = _kernel_of(shell)
    if kernel is not None and _lab is None:
        _lab = LabLink(kernel, wool)
    joblib_offer.offer()


def _made(shell: "InteractiveShell") -> Wool:
    """Options that can't be are left out, with a line: `%config` leaves one that it has refused in the shell's (traitlets 5.14).
    IPython leaves what is only half made among what `%config` sets."""
    before = list(shell.configurables)
    try:
        return Wool(shell)
    except TraitError as error:
        shell.configurables[:] = before
        shell.config.pop(Wool.__name__, None)
        print(f"wool: the options of Wool are left out: {error}", file=sys.stderr)
        return Wool(shell)


def _kernel_of(shell: "InteractiveShell") -> "IPythonKernel | None":
    """ipykernel's: another one (xeus) has its own ways to the front end."""
    kernel, ipykernel = getattr(shell, "kernel", None), sys.modules.get("ipykernel.ipkernel")
    return kernel if ipykernel is not None and isinstance(kernel, ipykernel.IPythonKernel) else None


def unload(shell: "InteractiveShell") -> None:
    """Stops the pool, too. Idempotent."""
    global _lab
    if _lab is not None:
        _lab.close()
        _lab = None
    completion.remove(shell)
    comment_form.unload(shell)
    help_form.unload(shell)
    manager = shell.magics_manager
    for kind in ("cell", "line"):
        manager.magics[kind].pop("wool", None)
    registered = manager.registry.pop(Wool.__name__, None)
    if registered in shell.configurables:
        shell.configurables.remove(registered)
    joblib_offer.withdraw()
    runtime = loaded_runtime()
    if runtime is None:
        return
    if runtime.end():
        print("wool: stopped the pool")
    background, runtime.background = runtime.background, None
    if background is not None:
        background.close()

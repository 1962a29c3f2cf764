"""What stands for an object that does not travel: it can be handed around and named, and any use of it says where the object is."""

from collections.abc import Callable
from typing import Any, NoReturn
from uuid import UUID

from wool_jupyter.errors import KeptOnWorker, StaysInKernel, WoolError

_USES = (
    "getattr setattr call enter exit iter next len contains getitem setitem delitem bool int float index add radd sub rsub "
    "mul rmul truediv lt gt le ge await aenter aiter"
).split()


class _StandIn:
    def _refusal(self) -> WoolError:
        raise NotImplementedError


def _refuser(use: str) -> Callable[..., NoReturn]:
    def refuse(self: _StandIn, *args: Any, **_: Any) -> NoReturn:
        __tracebackhide__ = True
        if use in ("__getattr__", "__setattr__") and args[0].startswith("_"):  # looked for by IPython, copy, pickle ...
            raise AttributeError(args[0])
        raise _refusal_of(self)

    refuse.__name__ = use
    return refuse


def _refusal_of(standin: _StandIn) -> WoolError:
    refusal: WoolError = object.__getattribute__(standin, "_refusal")()
    return refusal


for _use in _USES:
    setattr(_StandIn, f"__{_use}__", _refuser(f"__{_use}__"))


class Absent(_StandIn):
    """On a worker, for a value that stays in the kernel. Comes home as the original."""

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "_text", text)

    def _refusal(self) -> WoolError:
        return StaysInKernel(object.__getattribute__(self, "_text"))

    def __repr__(self) -> str:
        return f"<{object.__getattribute__(self, '_text')}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Absent, (object.__getattribute__(self, "_text"),)


class Kept(_StandIn):
    """In the kernel, for a value that stays on a worker. A cell that reads it runs there, and gets the object itself."""

    def __init__(
        self,
        key: str,
        worker: UUID,
        *,
        name: str,
        kind: str,
        cell: int,
        refused: Callable[[WoolError], object] = lambda _: None,
    ) -> None:
        """`refused` gets each error that a use of it is about to raise."""
        values = {
            "key": key,
            "worker": worker,
            "name": name,
            "kind": kind,
            "cell": cell,
            "refused": refused,
            "bundle": None,
            "is_gone": False,
        }
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    key: str
    worker: UUID
    name: str
    kind: str
    cell: int  # In[cell] made it
    refused: Callable[[WoolError], object]
    bundle: tuple[dict[str, Any], dict[str, Any]] | None  # how the worker shows it
    is_gone: bool  # with its worker

    def shown_as(self, bundle: tuple[dict[str, Any], dict[str, Any]] | None) -> None:
        object.__setattr__(self, "bundle", bundle)

    def gone(self) -> None:
        """Its worker has ended."""
        object.__setattr__(self, "is_gone", True)
        object.__setattr__(self, "bundle", None)

    def obituary(self) -> str:
        return f"`{self.name}` ({self.kind}) lived on a worker that is gone: run In[{self.cell}] again, which made it"

    def _refusal(self) -> WoolError:
        alive = f"`{self.name}` ({self.kind}) of In[{self.cell}] lives on a worker: use it in a %%wool cell"
        error = KeptOnWorker(self.obituary() if self.is_gone else alive)
        self.refused(error)
        return error

    def __repr__(self) -> str:
        if self.is_gone:
            return f"<{self.obituary()}>"
        return f"<{self.kind} `{self.name}` of In[{self.cell}], kept on a worker: use it in a %%wool cell>"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.bundle or ({"text/plain": repr(self)}, {})


_kept: dict[str, Any] = {}  # on a worker: key -> the object


def keep(key: str, obj: Any) -> None:
    _kept[key] = obj


def kept_object(key: str) -> Any:
    if key not in _kept:
        raise KeptOnWorker("the value was kept on a worker that is gone")
    return _kept[key]


def release(key: str) -> None:
    _kept.pop(key, None)


def keys_by_id() -> dict[int, str]:
    return {id(obj): key for key, obj in _kept.items()}

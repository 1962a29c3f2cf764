"""Variables on their way home, into the objects that they were."""

import io
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from wool_jupyter.errors import in_words
from wool_jupyter.notebook.shipment import Shipment
from wool_jupyter.wire import buffers, classes, patching, type_facts
from wool_jupyter.wire.unhindered import unhindered


@dataclass
class Arrived:
    """What a reply holds, loaded and not yet applied."""

    contents: list[tuple[str, patching.Contents]] = field(default_factory=list)
    class_changes: list[classes.Change] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)
    apart: dict[str, Any] = field(default_factory=dict)  # changed inputs that come as new objects
    value: Any = None
    error: BaseException | None = None
    lost: list[str] = field(default_factory=list)  # what could not be loaded here, and why, in words
    cut_short: str = ""  # why all that followed is lost, in words


class _Missing:
    """In place of a class or function that this process does not have: takes whatever it is made of."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        return super().__new__(cls)

    def __setstate__(self, _state: Any) -> None:
        pass

    def _take(self, *_: Any) -> None:
        pass

    append = extend = __setitem__ = _take


class _HomeUnpickler(pickle.Unpickler):
    """A name that can't be found does not end the load, which would lose all that follows: `missing` says why."""

    def __init__(self, file: io.BytesIO, buffers: Iterator[Any], shipment: Shipment) -> None:
        super().__init__(file, buffers=buffers)
        self._shipment = shipment
        self.missing = ""

    def persistent_load(self, number: int) -> Any:
        return self._shipment.originals[number]

    def find_class(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError) as error:
            self.missing = str(error)
            return _Missing


def load(reply: buffers.Parcel, shipment: Shipment, *, takes: Callable[[str], bool] = lambda _name: True) -> Arrived:
    """`takes` says whether a variable of the notebook may be bound."""
    stream, out_of_band = buffers.take(reply)
    unpickler = _HomeUnpickler(io.BytesIO(stream), iter(out_of_band), shipment)
    arrived = Arrived()
    with unhindered():
        while True:
            unpickler.missing = ""
            try:
                (kind, name), made = unpickler.load()
            except EOFError:
                return arrived
            except Exception as error:  # noqa: BLE001 (a user's constructor, run here for the first time)
                arrived.cut_short = in_words(error)
                return arrived
            if unpickler.missing:
                arrived.lost.append(f"`{name or kind}` could not be loaded here: {unpickler.missing}")
                continue
            match kind:
                case "contents":
                    arrived.contents.append((name, made))
                case "classes":
                    arrived.class_changes = made
                case "name":
                    bound = dict.fromkeys(filter(takes, shipment.route.homes(name)), made)
                    arrived.names.update(bound)
                    if type_facts.load_order(made) < type_facts.DATA:  # a `__setstate__` of what follows may need it
                        shipment.namespace.update(bound)
                case "apart":
                    arrived.apart = {name: new for name, new in made.items() if takes(name)}
                case "value":
                    arrived.value = made
                case "error":
                    arrived.error = made


def come_home(arrived: Arrived, shipment: Shipment, *, deleted: tuple[str, ...]) -> list[str]:
    """Into the namespace; originals take over what has changed. Not to be interrupted: half of it would be worse than either.
    Returns what to tell the user."""
    namespace = shipment.namespace
    with unhindered():
        patch = patching.Patch(arrived.contents, shipment.originals if arrived.contents else {})
    for change in arrived.class_changes:
        classes.apply_change(change)
    if annotations := arrived.names.pop("__annotations__", None):  # the cell began with none
        namespace.setdefault("__annotations__", {}).update(annotations)
    namespace.update(arrived.apart)
    namespace.update(arrived.names)
    for name in deleted:
        namespace.pop(name, None)
    shipment.load_submodules()
    if patch.replaced:
        for name, value in list(namespace.items()):
            if id(value) in patch.replaced:
                namespace[name] = patch.current(value)
    told = dict(arrived.apart)
    inside: dict[str, str] = {}
    for original, new in patch.replaced.values():
        name = patch.inside[id(original)]
        if namespace.get(name) is new:
            told[name] = new
        else:
            inside.setdefault(name, type(original).__name__)
    notices = [f"the {kind} inside `{name}` {_REPLACED}" for name, kind in inside.items() if name not in told]
    notices += arrived.lost
    notices += [f"`{name}` could not be brought up to date: {why}" for name, why in patch.failed.items()]
    return notices + [f"`{name}` ({type(new).__name__}) {_REPLACED}" for name, new in told.items()]


_REPLACED = "was changed by the cell and is a new object now; other references keep the old one"

"""What an object pickles as, taken apart: enough to make it anew, or to refill one that is there."""

import copyreg
import io
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from wool_jupyter.wire import closed_files, generators, pickling, rebuilding, type_facts


class Reduction(NamedTuple):
    """Shallow, in containers of its own."""

    maker: Callable[..., Any]
    args: tuple[Any, ...]
    state: Any = None
    items: list[Any] | None = None
    pairs: list[tuple[Any, Any]] | None = None
    setter: Callable[[Any, Any], object] | None = None


def reduction_of(obj: Any) -> Reduction | None:
    """None for what is pickled by name, and for a generator of numbers that each process has."""
    if generators.may_be(type(obj)) and generators.reduced(obj) is not None:
        return None
    if isinstance(obj, io.StringIO | io.BytesIO) and (closed := closed_files.in_memory(obj)) is not None:
        return Reduction(*closed)
    by_table = copyreg.dispatch_table.get(type(obj)) or pickling.NotebookPickler.dispatch_table.get(type(obj))
    made = by_table(obj) if by_table else obj.__reduce_ex__(pickling.PROTOCOL)
    if isinstance(made, str):
        return None
    whole = Reduction(*made)
    return whole._replace(
        state=dict(whole.state) if type(whole.state) is dict else whole.state,  # often the object's own
        items=None if whole.items is None else list(whole.items),
        pairs=None if whole.pairs is None else list(whole.pairs),
    )


def rebuilt(new: Reduction) -> Any:
    obj = new.maker(*new.args)
    if new.items:
        obj.extend(new.items)
    for key, value in new.pairs or ():
        obj[key] = value
    set_state(obj, new)
    return obj


def can_refill(obj: Any, new: Reduction) -> bool:
    """It is made the same way: what differs can be put into the object that is there."""
    if new.state is not None and not _takes_state(obj, new):
        return False  # an iterator over a dict: the trip has made it one over a list
    mine = reduction_of(obj)
    if mine is not None and mine.state is not None and new.state is None and not hasattr(obj, "__dict__"):
        return False  # an iterator that is used up
    return (
        mine is not None
        and mine.maker is new.maker
        and (_same(mine.args, new.args) or _pickle_alike(mine.args, new.args))
    )


def _takes_state(obj: Any, new: Reduction) -> bool:
    slotted = any("__slots__" in vars(cls) for cls in type(obj).__mro__)
    return slotted or new.setter is not None or hasattr(obj, "__setstate__") or hasattr(obj, "__dict__")


def refill(obj: Any, new: Reduction) -> None:
    if new.items is not None:
        obj.clear()
        obj.extend(new.items)
    if new.pairs is not None:
        obj.clear()
        for key, value in new.pairs:
            obj[key] = value
    if _is_array(obj) and _refill_array(obj, rebuilt(new)):
        return
    mine = reduction_of(obj)
    if mine is None or _same(mine.state, new.state):
        return
    if new.state is not None:
        set_state(obj, new)
    elif new.maker is rebuilding.NEW_OBJECT:
        _keep_slots(obj, ())
    if new.state is None and hasattr(obj, "__dict__"):
        vars(obj).clear()


def _keep_slots(obj: Any, named: Collection[str]) -> None:
    for name in copyreg._slotnames(type(obj)):  # type: ignore[attr-defined]
        if name not in named and hasattr(obj, name):
            delattr(obj, name)


def _is_array(obj: Any) -> bool:
    return any(type_facts.is_array(cls) for cls in type(obj).__mro__)


def _refill_array(array: Any, new: Any) -> bool:
    """Where it lies: its `__setstate__` would give it other memory, of which neither its views nor its file know."""
    import numpy as np

    if array.shape != new.shape or array.dtype != new.dtype or not array.flags.writeable:
        return False
    np.copyto(array.view(np.ndarray), new.view(np.ndarray))
    vars(array).update(vars(new))
    return True


def set_state(obj: Any, new: Reduction) -> None:
    """As the unpickler does, which starts with an empty object: attributes that the state does not name are taken away. Not from
    one whose maker gives it attributes (a masked array)."""
    if new.state is None:
        return
    if new.setter is not None:
        new.setter(obj, new.state)
        return
    attributes: dict[str, Any] = getattr(obj, "__dict__", {})
    before = dict(attributes)
    if new.maker is rebuilding.NEW_OBJECT:
        attributes.clear()
    try:
        if hasattr(obj, "__setstate__"):
            obj.__setstate__(new.state)
            return
        of_dict, of_slots = new.state if isinstance(new.state, tuple) and len(new.state) == 2 else (new.state, None)
        if of_dict:
            vars(obj).update(of_dict)
        if new.maker is rebuilding.NEW_OBJECT:
            _keep_slots(obj, of_slots or {})
        for name, value in (of_slots or {}).items():
            setattr(obj, name, value)
    except BaseException:
        attributes.clear()
        attributes.update(before)
        raise


_ATOMS = (str, bytes, int, float, complex, bool, type(None))


def _same(one: Any, other: Any) -> bool:
    """Cheap and certain when true: objects that stayed what they were are identical, since they went as numbers."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, _ATOMS):
        return bool(one == other)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(_same, one, other))
    if type(one) is dict:
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    return False


def _pickle_alike(one: Any, other: Any) -> bool:
    try:
        return pickling.dumps(one) == pickling.dumps(other)
    except Exception:  # noqa: BLE001 (whatever a user's __reduce__ raises: then they are not known to be alike)
        return False

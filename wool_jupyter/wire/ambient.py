"""Process state that follows the kernel into a cell, and comes back as differences."""

import contextlib
import contextvars
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wool_jupyter.errors import in_words
from wool_jupyter.wire import pickling
from wool_jupyter.wire.aspects.aspect import Aspect, Generator, flat
from wool_jupyter.wire.aspects.table import ASPECTS

_REASON_CHARS = 200

State = dict[str, bytes]  # aspect -> its pickled value, b"" where it can't be; one that could not be read is missing


def here() -> State:
    """Values may hold functions and classes of the notebook (a formatter, a category of warnings)."""
    return _told(ASPECTS)


def of_calls() -> State:
    """As `here`, without what concerns cells alone: calls side by side that drew the same random numbers would be of no use."""
    return _told({name: aspect for name, aspect in ASPECTS.items() if not aspect.of_cells})


def _told(aspects: Mapping[str, Aspect]) -> State:
    state = {}
    for name, aspect in aspects.items():
        if aspect.is_here:
            with contextlib.suppress(FileNotFoundError):
                state[name] = _pickled(name, aspect)
    return state


def draw_other_numbers() -> None:
    """From here on, than any other process."""
    for generator in _generators():
        generator.seed()


@contextlib.contextmanager
def other_numbers() -> Iterator[None]:
    """Inside, random numbers are other ones; then those go on that were drawn before."""
    before = [(generator, generator.read()) for generator in _generators()]
    draw_other_numbers()
    try:
        yield
    finally:
        for generator, state in before:
            generator.write(None, state)


def _generators() -> Iterator[Generator]:
    """Of random numbers, those that are here."""
    return (each for each in ASPECTS.values() if isinstance(each, Generator) and each.is_here)


_GLANCES = [(aspect.module, aspect.glance) for aspect in ASPECTS.values() if aspect.glance is not None]
_KEYED = tuple(aspect for aspect in ASPECTS.values() if not (aspect.of_cells or aspect.slow))
_OF_CONTEXT = tuple(name for name, aspect in ASPECTS.items() if aspect.of_context)

Glance = list[object]


def glance() -> Glance:
    """Had in microseconds: two that are equal mean that nothing was set in between, but for the umask and handlers of loggers."""
    loaded = sys.modules
    try:
        return [None if module and module not in loaded else look() for module, look in _GLANCES]
    except Exception:  # noqa: BLE001 (as in `_pickled`)
        return [object()]


def key_of_calls() -> tuple[object, ...]:
    """Two that are equal mean that `of_calls` tells the same, but for what is slow to tell."""
    return tuple(map(_key, _KEYED))


def _key(aspect: Aspect) -> object:
    if not aspect.is_here:
        return None
    try:
        key = flat(aspect.read()) if aspect.key is None else aspect.key()
    except Exception:  # noqa: BLE001 (as in `_pickled`)
        key = None
    return object() if key is None else key  # equal to no other


def follow_in_context(wanted: State) -> None:
    """In a new context, where all else is so already: what is kept in one begins with the defaults there."""
    kept = {name: wanted[name] for name in _OF_CONTEXT if name in wanted and wanted[name] != _default(name)}
    if kept:
        follow(kept, kept)


def _default(name: str) -> bytes | None:
    """None while its library is not here."""
    return _in_a_new_context(name) if ASPECTS[name].is_here else None


@functools.cache
def _in_a_new_context(name: str) -> bytes:
    return contextvars.Context().run(_pickled, name, ASPECTS[name])


def differences(before: State, after: State) -> tuple[State, State]:
    """As `follow` wants them: what became of the aspects that differ, and what they were."""
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    return changed, {name: before[name] for name in changed if name in before}


def unshippable(state: State) -> list[str]:
    return [name for name, value in state.items() if not value]


_last: dict[str, tuple[object, bytes]] = {}  # by aspect: the key of what was read, and how it was pickled


def _pickled(name: str, aspect: Aspect) -> bytes:
    try:
        if aspect.key is not None:
            return _pickled_once(name, aspect.key, aspect.read)
        value = aspect.read()
        return _pickled_once(name, lambda: flat(value), lambda: value)
    except FileNotFoundError:
        raise
    except Exception:  # noqa: BLE001 (whatever a user's object raises, or is: `sys.argv = None`)
        return b""


def _pickled_once(name: str, key_now: Callable[[], object], read: Callable[[], Any]) -> bytes:
    key, known = key_now(), _last.get(name)
    if key is not None and known is not None and known[0] == key:
        return known[1]
    pickled = pickling.dumps(read())
    if key is not None and key_now() == key:  # else another thread changes it
        _last[name] = key, pickled
    return pickled


def follow(wanted: State, before: State, *, process: bool = True, libraries: bool = True) -> list[str]:
    """What differs between the two becomes so here. What neither changed stays as it is here.

    The process's own state is wanted before objects are loaded, which may need `sys.path`; that of libraries after, which may be
    loaded by it, and may need the notebook's classes.

    Returns what can't be so here, each with the reason: an option that only the other side knows, a class that can't be loaded. An
    `OSError` is raised, as by a directory that is gone.
    """
    failed = []
    for name, value in wanted.items():
        aspect = ASPECTS[name]
        if not value or not (libraries if aspect.module or aspect.late else process):
            continue
        if value == before.get(name) and not aspect.of_context:
            continue
        try:
            new = pickling.loads(value)
            if aspect.is_here or (aspect.imports and new):
                aspect.write(_as_it_was(aspect, before.get(name)), new)
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 (whatever a library makes of it)
            failed.append(f"{name} ({in_words(error, at_most=_REASON_CHARS)})")
    return failed


def _as_it_was(aspect: Aspect, before: bytes | None) -> Any:
    if before:
        return pickling.loads(before)
    if before is None:
        return None
    with contextlib.suppress(Exception):  # `sys.argv = None`
        return aspect.read()  # it could not be pickled, so it has stayed here
    return None

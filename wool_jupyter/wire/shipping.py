"""One exception on its way, whatever it is: it arrives as itself, or as the best that can be had, and then says so."""

import io
import pickle
import warnings

import msgspec

from wool_jupyter.errors import CannotLoad, in_words
from wool_jupyter.wire import exceptions, homes, pickling

_CAUSES_MAX = 20


class FidelityWarning(RuntimeWarning):
    """An exception has crossed, and lost a part of itself on the way."""


class _Shipped(msgspec.Struct, frozen=True, array_like=True):
    stream: bytes
    words: str  # for a receiver that can't load it
    lost: tuple[str, ...]


_decode = msgspec.msgpack.Decoder(_Shipped).decode


def dump(error: BaseException) -> bytes:
    """Never fails. Without what can't be pickled; if that does not help, from class and `args` with a few of its causes; then
    without these; then as a RuntimeError that names it."""
    words = in_words(error)
    for causes, lost in (
        (None, ()),
        (_CAUSES_MAX, ("its traceback and attributes",)),
        (0, ("its traceback, attributes and causes",)),
    ):
        try:
            pickler, stream = _pickled(error if causes is None else exceptions.bare(error, causes=causes))
        except Exception:  # noqa: BLE001 (whatever a user's object raises, or a chain too deep to follow)
            continue
        return msgspec.msgpack.encode(_Shipped(stream, words, (*lost, *pickler.lost)))
    return msgspec.msgpack.encode(_Shipped(pickle.dumps(RuntimeError(words)), words, ("everything but its words",)))


def _pickled(error: BaseException) -> tuple[pickling.NotebookPickler, bytes]:
    file = io.BytesIO()
    pickler = pickling.NotebookPickler(file)
    pickler.dump(error)
    return pickler, file.getvalue()


def load(data: bytes) -> BaseException:
    """On the thread that is to raise it. `CannotLoad`, with its words, when it can't be rebuilt here; a `FidelityWarning` if it has
    lost something."""
    try:
        shipped = _decode(data)
    except msgspec.DecodeError as error:
        raise CannotLoad(f"an exception of the worker can't be read: {error}") from None
    try:
        loaded = homes.Unpickler(shipped.stream, ()).load()
    except Exception as failure:
        raise CannotLoad(f"the worker raised what can't be rebuilt here: {shipped.words}") from failure
    if not isinstance(loaded, BaseException):
        raise CannotLoad(f"the worker raised what can't be rebuilt here: {shipped.words}")
    if shipped.lost:
        try:
            warnings.warn(
                f"{shipped.words} has crossed without {', '.join(shipped.lost)}", FidelityWarning, stacklevel=2
            )
        except FidelityWarning as warning:  # warnings are errors here: but the exception is what has happened
            loaded.add_note(str(warning))
    return loaded

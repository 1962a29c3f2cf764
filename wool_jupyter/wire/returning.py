"""Objects on their way back to the kernel, beside those that it has."""

import io
import pickle
from collections.abc import Callable, Container, Mapping
from types import MappingProxyType
from typing import IO, Any

from wool_jupyter.wire import arrays, pickling, rebuilding, shared, views


class ReturnPickler(pickling.NotebookPickler):
    """On the way back: objects that came from the kernel go as their number, and arrive as the kernel's originals.

    `numbers` maps `id(obj)` to what is sent in the object's place, `view_bases` are the arrays among them, by
    what owns their memory.
    """

    def __init__(
        self,
        file: IO[bytes],
        buffer_callback: Callable[[pickle.PickleBuffer], Any],
        *,
        numbers: Mapping[int, int] | Mapping[int, str],
        known_classes: Container[str] = (),
        bases: views.Bases | None = None,
        view_bases: Mapping[int, Any] = MappingProxyType({}),
    ) -> None:
        super().__init__(file, buffer_callback, known_classes=known_classes, bases=bases)
        self._numbers = numbers
        self._view_bases = view_bases

    def _array(self, array: Any) -> Any:
        """A view into the kernel's own array arrives as one."""
        found = views.inside(array, self._view_bases)
        return super()._array(array) if found is None else views.as_view(array, *found)

    def _over(self, obj: Any) -> Any:
        """What a manager looks after ends with its last proxy, which may be the one here."""
        return self._refuse(obj) if shared.is_live_proxy(obj) else super()._over(obj)

    def _directory(self, directory: Any) -> Any:
        """One that was made here is removed with the object."""
        return self._refuse(directory) if directory._finalizer.alive else NotImplemented

    def persistent_id(self, obj: Any) -> int | str | None:
        return self._numbers.get(id(obj))


class Data:
    """Arrives as a copy of the array, which by itself would arrive as a view of what the receiver has."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __reduce__(self) -> Any:
        return arrays.reduced(self._array) or self._array.__reduce_ex__(pickling.PROTOCOL)


class Apart:
    """Arrives as what it holds, pickled for itself: nothing in it is an object that the receiver knows."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def __reduce__(self) -> tuple[Any, ...]:
        file, buffers = io.BytesIO(), []  # type: ignore[var-annotated]
        pickling.NotebookPickler(file, buffers.append).dump(self._held)
        return rebuilding.load_leaf, (file.getvalue(), *buffers)

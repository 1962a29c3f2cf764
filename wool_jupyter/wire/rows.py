"""Variables and calls on their way out: a row of dumps with one memo, so that what they share they share there, too."""

import io
import sys
import types
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

import xxhash

from wool_jupyter.wire import buffers, pickling, type_facts, views


class Failed(NamedTuple):
    """What could not be dumped, and why. The row is spoiled."""

    name: str
    cause: Exception


class Dump(NamedTuple):
    name: str
    length: int  # in the stream
    large: int  # number of its buffers


class Row:
    """Holds all that was dumped: the memo knows it by its id."""

    def __init__(
        self,
        *,
        in_band: bool = False,
        bases: views.Bases | None = None,
        left_behind: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self._file, self._out_of_band = io.BytesIO(), buffers.OutOfBand()
        self.pickler = pickling.NotebookPickler(
            self._file, None if in_band else self._out_of_band, bases=bases, left_behind=left_behind
        )
        self.dumps: list[Dump] = []
        self.roots: list[Any] = []
        self.failed: Failed | None = None
        self._modules: list[types.ModuleType] = []

    def dump(self, name: str, root: Any, *, value: Any) -> None:
        """`root` is `value`, or what holds it. Raises what pickling it raises, and then `failed` says which it is."""
        self.roots.append(root)
        self.pickler.root = value
        at, count = self._file.tell(), len(self.buffers)
        try:
            self.pickler.dump(root)
        except Exception as error:
            self.failed = Failed(name, error)
            raise
        self.dumps.append(Dump(name, self._file.tell() - at, len(self.buffers) - count))
        if isinstance(value, types.ModuleType):
            self._modules.append(value)

    def dump_all(
        self,
        wanted: Callable[[], set[str]],
        value_of: Callable[[str], Any],
        dump: Callable[[str], object],
        *,
        order: Callable[[str], Any],
    ) -> bool:
        """Until nothing is wanted that is not there: what was dumped may want more. Whether definitions and constants came after
        data."""
        has_data = too_late = False
        while waiting := wanted() - self.names:
            early = {name for name in waiting if type_facts.load_order(value_of(name)) < type_facts.DATA}
            too_late |= bool(early) and has_data
            has_data |= not early
            for name in sorted(early or waiting, key=order):
                dump(name)
        return too_late

    @property
    def names(self) -> set[str]:
        return {dump.name for dump in self.dumps}

    @property
    def stream(self) -> memoryview:
        """The row takes no more dumps as long as it lives."""
        return self._file.getbuffer()

    @property
    def buffers(self) -> list[memoryview]:
        return self._out_of_band.buffers

    def submodules(self, attributes: Iterable[str] = ()) -> tuple[str, ...]:
        """Of the packages in it, that what it holds may reach, or somebody who reads these attributes."""
        used = {*attributes, *self.pickler.attributes}
        return tuple(name for module in self._modules for name in submodules_used(module, used))

    def digests(self) -> Iterator[tuple[str, bytes]]:
        """Of each dump."""
        stream, rest = self.stream, iter(self.buffers)
        for name, length, count in self.dumps:
            digest = xxhash.xxh3_128(stream[:length])
            for view in islice(rest, count):
                digest.update(view)
            yield name, digest.digest()
            stream = stream[length:]


def submodules_used(module: types.ModuleType, attributes: Container[str]) -> list[str]:
    """Loaded submodules that `attributes` may reach through a package: `import xml.etree.ElementTree` binds only `xml`."""
    prefix = module.__name__ + "."
    loaded = [name for name in list(sys.modules) if name.startswith(prefix)]
    return [name for name in loaded if all(part in attributes for part in name[len(prefix) :].split("."))]

"""Objects that are compared without being asked: what a user's `__eq__` does, or a comparison of arrays, is no part of that."""

import operator
from collections.abc import Iterable


class Identical:
    """Equal to another one of the very same objects. Holds them, so that what is made later is something else."""

    __slots__ = ("_objects",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, objects: Iterable[object]) -> None:
        self._objects = tuple(objects)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Identical):
            return NotImplemented
        mine, its = self._objects, other._objects
        return len(mine) == len(its) and all(map(operator.is_, mine, its))

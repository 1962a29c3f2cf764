from contextlib import asynccontextmanager, contextmanager
from typing import Protocol, runtime_checkable

import pytest

from tests.support.loops import run
from wool_jupyter.pool.resolving import resolved


@runtime_checkable
class Named(Protocol):
    @property
    def name(self) -> str: ...


@runtime_checkable
class Sized(Protocol):
    def __len__(self) -> int: ...


class Part:
    """Counts how often its name is asked for."""

    asked = 0

    @property
    def name(self):
        self.asked += 1
        return "part"


class Context:
    """Gives `part`, as both kinds of context manager would."""

    def __init__(self, part, *, swallows=False):
        self.part, self.swallows, self.log = part, swallows, []

    def enter(self):
        self.log.append("entered")
        return self.part

    def leave(self, kind):
        self.log.append(f"left {kind and kind.__name__}")
        return self.swallows


class AtOnce(Context):
    def __enter__(self):
        return self.enter()

    def __exit__(self, kind, error, trace):
        return self.leave(kind)


class Later(Context):
    async def __aenter__(self):
        return self.enter()

    async def __aexit__(self, kind, error, trace):
        return self.leave(kind)


async def awaited(made):
    return made


@contextmanager
def generated(part):
    yield part


@asynccontextmanager
async def generated_later(part):
    yield part


@pytest.mark.parametrize(
    "form",
    [
        lambda part: part,
        lambda part: lambda: part,
        lambda part: lambda: awaited(part),
        awaited,
        AtOnce,
        Later,
        lambda part: lambda: Later(part),
        lambda part: lambda: awaited(AtOnce(part)),
        generated,
        generated_later,
        lambda part: lambda: generated(part),
    ],
)
def test_every_form_gives_the_part_and_what_it_was_taken_for(form):
    async def main():
        part = Part()
        async with resolved(form(part), Sized, Named) as (kind, found):
            assert (kind, found) == (Named, part)

    run(main())


def test_a_class_makes_an_instance():
    async def main():
        async with resolved(Part, Named) as (_, found):
            assert isinstance(found, Part)

    run(main())


def test_a_class_of_context_managers_makes_one_and_it_is_entered():
    log = []

    class Both(Part):
        def __enter__(self):
            log.append("entered")
            return self

        def __exit__(self, *_):
            log.append("left")

    async def main():
        async with resolved(Both, Named) as (_, found):
            assert isinstance(found, Both)
        assert log == ["entered", "left"]

    run(main())


@pytest.mark.case("OWN-17")
@pytest.mark.parametrize("kind", [AtOnce, Later])
@pytest.mark.parametrize("swallows", [False, True])
def test_what_is_none_of_those_is_refused_by_name_and_left_once(kind, swallows):
    given = kind(object(), swallows=swallows)

    async def main():
        with pytest.raises(TypeError, match="has to be a Sized or Named, and a object is none"):
            async with resolved(given, Sized, Named):
                pytest.fail("it was accepted")

    run(main())
    assert given.log == ["entered", "left TypeError"]


@pytest.mark.case("OWN-18")
@pytest.mark.parametrize("kind", [AtOnce, Later])
@pytest.mark.parametrize("swallows", [False, True])
def test_an_error_inside_is_told_to_it_and_passes(kind, swallows):
    given = kind(Part(), swallows=swallows)

    async def main():
        with pytest.raises(ZeroDivisionError):
            async with resolved(given, Named):
                raise ZeroDivisionError

    run(main())
    assert given.log == ["entered", "left ZeroDivisionError"]


def test_properties_of_a_part_are_asked_for_once():
    """As a protocol does to find out what it is; making a publisher may cost something."""

    async def main():
        part = Part()
        async with resolved(part, Named):
            assert part.asked <= 1

    run(main())

"""The package's own exceptions on their way from a worker."""

import inspect
import pickle
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.loops import run
from tests.support.routine_workers import pool_directory, routines_on
from wool_jupyter import errors
from wool_jupyter.dispatch.routine import routine
from wool_jupyter.wire import calls, frames
from wool_jupyter.wire.shipping import FidelityWarning

NAMESPACE = [errors.DiscoveryNamespaceInUse, errors.DiscoveryNamespaceNotFound, errors.DiscoveryNamespaceContended]
SIZE = [errors.DiscoveryCapacityExhausted, errors.DiscoveryBlockExhausted]

any_discovery_error = st.one_of(
    *(st.builds(kind, st.text()) for kind in NAMESPACE),
    *(st.builds(kind, st.integers(0)) for kind in SIZE),
    st.builds(errors.DiscoveryWorkerNotFound, st.uuids()),
)


def sent(error):
    """Through the frame that carries what a body raised."""
    frame = frames.decode_response(frames.encode(frames.Yielded(1, calls.pack_raised(error), last=True)))
    try:
        calls.unpack_outcome(frame.value)
    except BaseException as arrived:
        return arrived
    raise AssertionError("it was raised there")


def assert_same(found, error):
    assert type(found) is type(error)
    assert found.args == error.args
    assert [type(value) for value in found.args] == [type(value) for value in error.args]
    assert vars(found) == vars(error)
    assert str(found) == str(error)


def test_every_discovery_error_is_among_those_that_are_tried():
    found = {kind for name, kind in inspect.getmembers(errors, inspect.isclass) if name.startswith("Discovery")}
    assert found == {*NAMESPACE, *SIZE, errors.DiscoveryWorkerNotFound}


@pytest.mark.case("OWN-14")
@given(any_discovery_error)
def test_a_discovery_error_keeps_class_fields_and_message_however_it_is_made_again(error):
    for again in (type(error)(*error.args), pickle.loads(pickle.dumps(error)), sent(error)):
        assert_same(again, error)


@pytest.mark.case("OWN-15")
@given(any_discovery_error)
def test_a_cause_that_does_not_pickle_costs_a_discovery_error_nothing_but_a_warning(error):
    error.__cause__ = OSError("no lock", memoryview(b"x"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = sent(error)
    assert_same(found, error)
    assert type(found.__cause__) is OSError
    assert [each.category for each in caught] == [FidelityWarning]


@routine
async def raises(error, cause=None):
    if cause is not None:
        raise error from OSError("no lock", memoryview(cause))
    raise error


@pytest.mark.case("OWN-14", "OWN-15")
@pytest.mark.parametrize(
    "error",
    [*(kind("a name") for kind in NAMESPACE), *(kind(4096) for kind in SIZE)],
    ids=lambda error: type(error).__name__,
)
def test_a_discovery_error_of_a_routine_arrives_whole(error):
    async def main():
        async with routines_on(directory):
            with pytest.raises(type(error)) as caught:
                await raises(error)
            assert_same(caught.value, error)
            with pytest.raises(type(error)) as caught, pytest.warns(FidelityWarning, match="memoryview"):
                await raises(error, b"x")
            assert_same(caught.value, error)
            assert type(caught.value.__cause__) is OSError

    with pool_directory() as directory:
        run(main())

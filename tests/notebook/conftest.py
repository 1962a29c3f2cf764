"""Kernels for the tests: one for all, and fresh ones for tests that would spoil it."""

import pytest

from tests.support.differential import Pair
from tests.support.kernel import Kernel


class _Shared:
    """A kernel that does not come back to its beginning (a cell hangs) is replaced: one fault makes one test fail."""

    def __init__(self):
        self._kernel = None

    def fresh(self):
        if self._kernel is not None:
            try:
                self._kernel.reset(timeout=5)
            except AssertionError:
                self.shutdown()
        if self._kernel is None:
            self._kernel = Kernel()
            self._kernel.ok("%load_ext wool_jupyter\n%wool start", store_history=False)
            self._kernel.reset()
        return self._kernel

    def shutdown(self):
        if self._kernel is not None:
            self._kernel.shutdown(now=True)
            self._kernel = None


@pytest.fixture(scope="session")
def _shared_kernel():
    shared = _Shared()
    yield shared
    shared.shutdown()


@pytest.fixture
def kernel(_shared_kernel):
    """As new, apart from what has been imported and from its pool."""
    return _shared_kernel.fresh()


@pytest.fixture
def fresh_kernel():
    """A kernel of its own, with the extension loaded and no pool yet."""
    kernel = Kernel()
    kernel.ok("%load_ext wool_jupyter", store_history=False)
    yield kernel
    kernel.shutdown()


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """A plain kernel and one with a pool, to run the same cells on."""
    pair = Pair(tmp_path_factory.mktemp("pair"))
    yield pair
    pair.close()


@pytest.fixture
def same(pair):
    """`same(cell, before=..., after=...)`: the cell does the same with and without `%%wool`."""
    return pair.same

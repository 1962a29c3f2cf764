"""Kernels for the tests: one for all, and fresh ones for tests that would spoil it."""

import pytest

from tests.support.kernel import Kernel


@pytest.fixture(scope="session")
def _shared_kernel():
    kernel = Kernel()
    kernel.ok("%load_ext wool_jupyter\n%wool start", store_history=False)
    yield kernel
    kernel.shutdown()


@pytest.fixture
def kernel(_shared_kernel):
    """As new, apart from what has been imported and from its pool."""
    _shared_kernel.reset()
    return _shared_kernel


@pytest.fixture
def fresh_kernel():
    """A kernel of its own, with the extension loaded and no pool yet."""
    kernel = Kernel()
    kernel.ok("%load_ext wool_jupyter", store_history=False)
    yield kernel
    kernel.shutdown()

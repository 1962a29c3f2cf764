import pytest

from tests.support.carriers import CARRIERS


@pytest.fixture(params=CARRIERS)
def carrier(request):
    """What holds of a session holds whatever carries its frames."""
    return request.param

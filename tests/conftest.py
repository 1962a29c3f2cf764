import pytest


@pytest.fixture
def root(tmp_path):
    """This test's own: a janitor removes every namespace beside the one that is entered."""
    path = tmp_path / "root"
    path.mkdir(mode=0o700)
    return path

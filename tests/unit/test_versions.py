import pytest

from wool_jupyter.wire import versions


@pytest.mark.parametrize(
    ("worker", "client", "suits"),
    [
        ("1.2.3", "1.2.3", True),
        ("1.3", "1.2.9", True),
        ("1.2.10", "1.2.9", True),
        ("1.2.3", "1.2.4", False),
        ("1.2", "1.3.0", False),
        ("2.0.0", "1.9.9", False),
        ("0.2.1", "0.2.0", True),
        ("0.3.0", "0.2.0", False),
        ("0.2.0.dev3+gabc", "0.2.0rc1", True),
        ("1.2.3", "None", False),
        ("odd", "odd", False),
        ("1.2.3", "", False),
    ],
)
def test_a_worker_suits_clients_of_its_line_that_are_no_newer(worker, client, suits):
    assert versions.suits(worker, client) is suits

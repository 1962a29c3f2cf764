"""Values that leave the message, and what is left of them."""

import os
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

POOLS = Path(f"/dev/shm/wool-{os.getuid()}/1")


def files_of_calls():
    return list(POOLS.glob("k*/*/calls/*/*"))


def test_a_large_array_goes_and_comes_back(fresh_kernel):
    fresh_kernel.ok("import numpy as np\nbig = np.arange(37_500_000, dtype=float); first = float(big.sum())")
    assert fresh_kernel.wool("total = float(big.sum()); back = big * 2; total").value == "703124981250000.0"
    assert fresh_kernel.value("(first == total, float(back[-1]), back.nbytes, back.flags.writeable)") == (
        True,
        74999998.0,
        300_000_000,
        True,
    )


def test_a_large_array_changed_in_place_keeps_its_identity(fresh_kernel):
    fresh_kernel.ok("import numpy as np\nbig = np.zeros(20_000_000); alias = big; view = big[10:20]")
    fresh_kernel.wool("big[5] = 1; big[-1] = 2; big[15] = 3")
    assert fresh_kernel.value("(alias is big, float(alias.sum()), float(view[5]), np.shares_memory(view, big))") == (
        True,
        6.0,
        3.0,
        True,
    )


def test_an_array_that_repeats_its_memory_stays_as_it_was(kernel):
    kernel.ok("import numpy as np; x = np.broadcast_to(np.arange(100_000), (3, 100_000))")
    kernel.wool("there, writeable, copied = x, x.flags.writeable, x.copy()")
    assert kernel.value("(there is x, writeable, x.strides)") == (True, False, (0, 8))
    assert kernel.value("(bool((copied == x).all()), copied.flags.writeable)") == (True, True)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param("x = b'ab' * 4_000_000", id="bytes"),
        pytest.param("x = bytearray(b'ab' * 4_000_000)", id="bytearray"),
        pytest.param("x = 'é日' * 3_000_000", id="text"),
        pytest.param("x = list(range(500_000))", id="list"),
        pytest.param("x = {i: str(i) for i in range(200_000)}", id="dict"),
        pytest.param("import numpy as np; x = np.asfortranarray(np.arange(600_000).reshape(600, 1000))", id="fortran"),
        pytest.param("import numpy as np; x = np.arange(1_000_000)[::3]", id="strided"),
        pytest.param("import numpy as np; x = np.zeros(0)", id="empty"),
        pytest.param("import numpy as np; x = np.array(['abc'] * 100_000, dtype=object)", id="objects"),
        pytest.param("import numpy as np; x = np.zeros(100_000, dtype=[('a', 'i4'), ('b', 'f8')])", id="structured"),
        pytest.param("import numpy as np; x = np.array(['2020-01-01'] * 100_000, dtype='M8[D]')", id="dates"),
        pytest.param(
            "import numpy as np; x = np.ma.masked_array(np.arange(200_000), mask=np.arange(200_000) % 2)", id="masked"
        ),
        pytest.param(
            "import pandas as pd, numpy as np; x = pd.DataFrame({'a': np.arange(200_000), 'b': ['t'] * 200_000})",
            id="frame",
        ),
        pytest.param("import pandas as pd; x = pd.Series(pd.Categorical(['a', 'b'] * 100_000))", id="categorical"),
        pytest.param("import scipy.sparse as sp; x = sp.eye(200_000, format='csr')", id="sparse"),
    ],
)
def test_a_value_is_equal_after_both_ways(kernel, make):
    kernel.ok(make)
    kernel.wool(
        "import pickle\nthere = x\ncopied = pickle.loads(pickle.dumps(x, 5))\nmade = [copied, len(pickle.dumps(copied))]"
    )
    kernel.ok("import pickle")
    assert kernel.value("(there is x or isinstance(x, (bytes, str)), type(made[0]) is type(x))") == (True, True)
    assert kernel.value("pickle.dumps(made[0], 5) == pickle.dumps(pickle.loads(pickle.dumps(x, 5)), 5)")


def test_what_came_back_can_be_changed_and_sent_again(kernel):
    kernel.wool("import numpy as np\na = np.zeros(1_000_000)")
    kernel.ok("import numpy as np\na[0] = 1; a.sort()")
    kernel.wool("a += 1; b = a[-1]")
    assert kernel.value("(float(a[0]), float(a[-1]), float(b))") == (1.0, 2.0, 2.0)


def test_no_file_is_left_after_a_cell(kernel, tmp_path):
    gate = tmp_path / "gate"
    kernel.ok("import numpy as np\nbig = np.zeros(5_000_000)")
    running = kernel.begin(
        f"%%wool\nimport os, time\nprint('in')\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\nback = big + 1"
    )
    running.wait_for("in\n")
    assert files_of_calls()
    gate.touch()
    assert running.result().status == "ok"
    wait_until(lambda: not files_of_calls())


def test_many_large_results_do_not_grow_the_kernel(fresh_kernel):
    fresh_kernel.wool("import numpy as np; x = np.zeros(10_000_000)")
    rss = "int(open('/proc/self/statm').read().split()[1]) * 4096"
    before = fresh_kernel.value(rss)
    for _ in range(8):
        fresh_kernel.wool("x = np.ones(10_000_000) if 'np' in globals() else __import__('numpy').ones(10_000_000)")
    assert fresh_kernel.value(rss) - before < 250_000_000


def test_a_large_picture_is_shown(kernel):
    result = kernel.wool("from IPython.display import HTML\nHTML('<p>' + 'x' * 6_000_000 + '</p>')")
    assert len(result.data["text/html"]) == 6_000_007

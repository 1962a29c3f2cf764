"""Large data of a notebook: it crosses once, exists once, and is there no longer than somebody needs it."""

import re
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

MB = 1 << 20


@pytest.fixture
def here(fresh_kernel):
    """A kernel with two workers."""
    fresh_kernel.ok("%config Wool.workers = 2\n%wool start\nimport os, wool_jupyter, numpy as np")
    fresh_kernel.ok("from wool_jupyter.notebook.runtime import runtime\npool = wool_jupyter.pool()")
    return fresh_kernel


def files(kernel, *folders):
    """Inode -> size, of its own pool."""
    places = kernel.value("list(map(str, runtime().places))")
    found = (
        file for place in places for folder in folders or ("data", "idle") for file in Path(place, folder).iterdir()
    )
    return {(status := file.stat()).st_ino: status.st_size for file in found}


def test_what_ten_cells_read_is_written_once(here):
    here.ok("big = np.arange(4_000_000.0); other = np.ones(500_000)")
    seen = set()
    for k in range(10):
        here.wool(f"total = float(big.sum() + other.sum() + {k})")
        seen |= set(files(here))
        assert here.value("total") == 7999998000000.0 + 500000.0 + k
    assert len(seen) == 2


def test_what_cells_calls_and_joblib_read_is_written_once_whatever_object_has_it(here):
    here.ok("big = np.arange(4_000_000.0); def_total = lambda a: float(a.sum())")
    here.wool("one = float(big.sum())")
    here.ok("two = pool.submit(def_total, big.copy()).result()")
    here.ok("three = list(pool.map(def_total, [big] * 4))[0]")
    here.ok("""
        import joblib
        with joblib.parallel_config(backend="wool", n_jobs=2):
            four = joblib.Parallel()(joblib.delayed(def_total)(big) for _ in range(4))[0]
    """)
    here.ok("again = big.reshape(2, -1).reshape(-1)")
    here.wool("five = float(again.sum())")
    assert here.value("{one, two, three, four, five}") == {7999998000000.0}
    assert list(files(here).values()) == [32_000_000]


def test_a_byte_that_changes_is_seen_by_the_next_cell_and_not_by_a_job_before(here):
    here.ok(
        "big = np.zeros(4_000_000, 'u1'); waits = pool.submit(lambda a: (__import__('time').sleep(0.5), int(a[-1]))[1], big)"
    )
    here.ok("big[-1] = 7")
    assert here.wool("int(big[-1])").value == "7"
    assert here.value("waits.result()") == 0


def test_what_one_worker_writes_nobody_else_sees(here):
    here.ok("""
        big = np.zeros(4_000_000, 'u1')
        def writes(a, n):
            before = int(a[0]), int(a[-1])
            a[:] = n
            return before, os.getpid()
    """)
    found = here.value("[f.result() for f in [pool.submit(writes, big, n) for n in range(1, 9)]]")
    assert {before for before, _ in found} == {(0, 0)}
    assert here.value("int(big.max())") == 0
    assert here.wool("int(big.max())").value == "0"


def test_a_read_only_array_stays_so_and_a_writable_one_can_be_written(here):
    here.ok("fixed = np.zeros(4_000_000, 'u1'); fixed.flags.writeable = False; free = np.zeros(4_000_000, 'u1')")
    assert here.wool("fixed.flags.writeable, free.flags.writeable").value == "(False, True)"
    assert here.wool_error("fixed[0] = 1").ename == "ValueError"
    here.wool("free[5] = 3; same = free")
    assert here.value("(int(free[5]), same is free, free.flags.owndata)") == (3, True, True)


def test_one_array_that_all_workers_hold_exists_once(here, tmp_path):
    size = 64 * MB
    here.ok(f"""
        import glob
        big = np.arange({size} // 8)
        def pss(pid):
            return sum(int(line.split()[1]) << 10 for line in open(f"/proc/{{pid}}/smaps_rollup") if line.startswith("Pss:"))
        def hold(a, round):
            import builtins, time
            builtins.held = a, int(a.sum())
            open(f"{tmp_path}/{{round}}-{{os.getpid()}}", "w").close()
            while len(glob.glob(f"{tmp_path}/{{round}}-*")) < 2: time.sleep(0.01)
            return os.getpid()
        def on_both(a, round):
            return {{f.result() for f in [pool.submit(hold, a, round) for _ in range(2)]}}
        workers = on_both(big[:1], 1)
        before = sum(map(pss, workers))
        assert on_both(big, 2) == workers
    """)
    grown = here.value("sum(map(pss, workers)) - before")
    assert size * 0.95 < grown < size * 1.15
    assert list(files(here).values()) == [size]


def test_a_result_that_is_passed_on_is_not_written_again(here):
    here.wool("made = np.arange(4_000_000.0)")
    assert list(files(here)) != []
    before = files(here)
    assert here.wool("float(made.sum())").value == "7999998000000.0"
    here.ok("total = pool.submit(lambda a: float(a.sum()), made).result()")
    assert files(here) == before
    here.ok("made[0] = 5")
    assert here.wool("float(made.sum())").value == "7999998000005.0"
    assert len(files(here)) == 2


def test_a_result_that_is_deleted_makes_room_for_the_next_and_one_that_is_kept_does_not(here):
    seen = set()
    for n in range(5):
        here.wool(f"made = np.full(4_000_000, {n}.0)")
        assert here.value("(float(made[0]), float(made[-1]))") == (n, n)
        here.ok("del made")
        seen |= set(files(here))
    assert len(seen) == 1
    here.ok("kept = []")
    for n in range(3):
        here.wool(f"made = np.full(4_000_000, {n}.0)")
        here.ok("kept.append(made); del made")
    assert here.value("[set(each.tolist()) for each in kept]") == [{0.0}, {1.0}, {2.0}]
    assert len(files(here)) == 3


def test_a_forked_child_of_the_kernel_keeps_what_the_kernel_has_let_go(here):
    """Its pages have not been looked at when others are written."""
    here.wool("made = np.full(4_000_000, 1.0)")
    here.ok("""
        import warnings; warnings.simplefilter("ignore")  # Python 3.12 warns of forks with threads
        go_r, go_w = os.pipe(); out_r, out_w = os.pipe()
        if (child := os.fork()) == 0:
            os.read(go_r, 1)
            os.write(out_w, str(sorted(set(made[::512].tolist()))).encode())
            os._exit(0)
        del made
    """)
    for n in (2, 3, 4):
        here.wool(f"made = np.full(4_000_000, {n}.0)")
        here.ok("del made")
    assert here.value("(os.write(go_w, b'x'), os.read(out_r, 100), os.waitpid(child, 0)[1])")[1:] == (b"[1.0]", 0)


def test_what_a_worker_left_in_a_process_of_its_own_stays_as_it_was(here, tmp_path):
    """A DataLoader's processes, say, hold an input that the cell itself has let go."""
    gate, out = tmp_path / "gate", tmp_path / "out"
    here.ok("big = np.full(4_000_000, 1.0)")
    here.wool(f"""
        import os, time
        if os.fork() == 0:
            while not os.path.exists({str(gate)!r}): time.sleep(0.01)
            open({str(out)!r} + "x", "w").write(str(sorted(set(big[::512].tolist()))))
            os.rename({str(out)!r} + "x", {str(out)!r})
            os._exit(0)
    """)
    for n in (2, 3, 4):
        here.ok(f"big = np.full(4_000_000, {n}.0)")
        assert here.wool("float(big[0])").value == str(float(n))
    gate.touch()
    wait_until(out.exists)
    assert out.read_text() == "[1.0]"


def test_status_tells_of_it_and_the_budget_can_be_set(here):
    assert "large data" not in here.ok("%wool status").stdout
    here.ok("big = np.arange(4_000_000.0)")
    here.wool("total = float(big.sum())")
    told = here.ok("%wool status").stdout
    assert re.search(r"^wool: 32 MB of large data kept for workers, 0 B of it in use; .* at most$", told, re.MULTILINE)
    here.ok("%config Wool.data_budget_bytes = 10_000_000")
    assert here.wool("float(big.sum())").value == "7999998000000.0"
    told = here.ok("%wool status").stdout
    assert "10 MB at most" in told


def test_no_budget_means_that_data_goes_with_its_cell(here):
    here.ok("%config Wool.data_budget_bytes = 0\nbig = np.arange(4_000_000.0)")
    for _ in range(2):
        here.wool("total = float(big.sum()); back = big * 2")
        assert here.value("float(back[-1])") == 7999998.0
    wait_until(lambda: not files(here, "data"))


def test_nothing_is_left_when_the_kernel_is_gone(here):
    here.ok("big = np.arange(4_000_000.0)")
    here.wool("back = big * 2")
    places = list(map(Path, here.value("list(map(str, runtime().places))")))
    assert all(place.exists() for place in places)
    here.shutdown(now=True)  # SIGKILL
    wait_until(lambda: not any(place.exists() for place in places))


def test_a_pool_that_is_started_anew_sends_anew(here):
    here.ok("big = np.arange(4_000_000.0)")
    here.wool("back = big * 2")
    here.ok("%wool stop")
    assert here.wool("float(big.sum() + back.sum())").value == "23999994000000.0"
    here.ok("runtime().end()")  # and leaves its home
    assert here.wool("float(big.sum() + back.sum())").value == "23999994000000.0"


def test_inputs_in_a_frame_and_in_containers_are_known_too(here):
    here.ok("""
        import pandas as pd
        frame = pd.DataFrame({"a": np.arange(1_000_000.0), "b": np.arange(1_000_000), "c": np.ones(1_000_000, "i2")})
        nested = {"x": [frame["a"].to_numpy().copy()]}
    """)
    seen = set()
    for _ in range(3):
        here.wool("total = float(frame['a'].sum() + nested['x'][0].sum()), int(frame['c'].sum())")
        seen |= set(files(here))
    assert here.value("total") == (999999000000.0, 1000000)
    assert len(seen) <= 3

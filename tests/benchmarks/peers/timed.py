"""The works, as they are timed in the notebook that has a peer: seconds and bytes. A wrong result is an error.

`bodies` is the module of the notebook, whose functions the workers run."""

import os
import signal
import tempfile
from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import count
from statistics import median
from time import perf_counter
from typing import Any

import psutil

from tests.benchmarks.peers.peer import Peer

WORKERS = 2
COUNT = 1 << 25  # numbers of 8 bytes: 256 MB
_SEED = 15
_ONE_MORE = list(range(1, 2001))
_PATIENCE_S = 3.0


def started(name: str, bodies: Any) -> tuple[Peer, float]:
    """From the import of its library until the first result."""
    began = perf_counter()
    peer: Peer = import_module(f"tests.benchmarks.peers.{name}").Workers(WORKERS)
    _expect(peer.call(bodies.add_one, 1), 2)
    return peer, perf_counter() - began


def idle_bytes(peer: Peer, bodies: Any) -> float:
    """Of a worker that has run small calls."""
    peer.submit(bodies.add_one, range(20))
    return float(median(psutil.Process(pid).memory_full_info().pss for pid in worker_pids(peer, bodies)))


def small_call(peer: Peer, bodies: Any) -> float:
    for _ in range(50):
        _expect(peer.call(bodies.add_one, 1), 2)
    return median(_repeated(lambda: _took_s(lambda: _expect(peer.call(bodies.add_one, 1), 2)), 300))


def many_calls(peer: Peer, bodies: Any) -> tuple[float, float]:
    """2,000 by `map`, and submitted one by one."""

    def took_s(way: Callable[..., Any]) -> float:
        return _took_s(lambda: _expect(way(bodies.add_one, range(2000)), _ONE_MORE))

    by_map, by_submit = (median(_repeated(partial(took_s, way), 5)) for way in (peer.map, peer.submit))
    return by_map, by_submit


def naps(peer: Peer, bodies: Any) -> float:
    """100 calls of 50 ms, which are 2.5 s of work."""
    return _took_s(lambda: _expect(peer.map(bodies.nap, [0.05] * 100), [0.05] * 100))


def array_in(peer: Peer, bodies: Any) -> tuple[float | str, ...]:
    """256 MB: the first in this notebook, the same a second time and from then on, with a few numbers changed, others of the same
    size, and one that was placed by hand beforehand. Whoever gets one reads each page of it."""
    import numpy as np

    _taken_bytes(peer, bodies, np.arange(10.0))  # both workers have imported numpy
    numbers = np.random.default_rng(_SEED)
    array = numbers.random(COUNT)

    def send(handle: Any = None) -> float:
        expected = bodies.read(array)
        return _took_s(lambda: _expect(peer.call(bodies.read, array if handle is None else handle), expected))

    def changed() -> float:
        array[: len(array) : len(array) // 7] += 1
        return send()

    def another() -> float:
        nonlocal array
        array = numbers.random(COUNT)
        return send()

    first, second = send(), send()
    later = _repeated(send, 8)[-5:]
    settled = first, second, median(later), median(_repeated(changed, 3)), median(_repeated(another, 3))
    handle = peer.placed(array)
    return *settled, "no such way" if handle is None else median(_repeated(lambda: send(handle), 5))


def array_out(peer: Peer, bodies: Any) -> float:
    """256 MB that a worker makes, until each page has been read here; less the time in which it was made."""
    firsts = count(1)

    def fetch() -> float:
        first = next(firsts)
        expected = 512 * sum(range(COUNT // 512)) + first * (COUNT // 512)
        began = perf_counter()
        array, made_s = peer.call(bodies.make, first, COUNT)
        _expect(bodies.read(array), float(expected))
        return perf_counter() - began - made_s

    fetch()
    return median(_repeated(fetch, 5))


def held_bytes(peer: Peer, bodies: Any) -> float:
    """What all processes take more, while each worker holds the same 256 MB of the notebook, which has them in either case."""
    import numpy as np

    array = np.random.default_rng(_SEED + 1).random(COUNT)
    before, after = (_taken_bytes(peer, bodies, each) for each in (np.arange(10.0), array))
    return float(after - before)


def next_result(peer: Peer, bodies: Any) -> tuple[float, float | str]:
    """After the worker that was used last has been killed; and until all are at work again."""
    worker_pids(peer, bodies)  # all are there
    os.kill(peer.call(bodies.process_id), signal.SIGKILL)
    began = perf_counter()
    _survived(peer, lambda: _expect(peer.call(bodies.add_one, 1), 2))
    next_s = perf_counter() - began
    if not peer.replaces_the_dead:
        return next_s, "no new one"
    _survived(peer, lambda: worker_pids(peer, bodies))
    return next_s, perf_counter() - began


def _survived(peer: Peer, run: Callable[[], object]) -> None:
    while True:
        try:
            run()
        except peer.died:
            peer.recover()
        else:
            return


def worker_pids(peer: Peer, bodies: Any) -> list[int]:
    return [pid for pid, _, _ in _held(peer, bodies, None)]


def _taken_bytes(peer: Peer, bodies: Any, array: Any) -> int:
    """By all processes of this notebook, while each worker holds the array."""
    found = _held(peer, bodies, array, os.getpid())
    for _, total, _ in found:
        _expect(total, bodies.read(array))
    return max(taken for _, _, taken in found)


def _held(peer: Peer, bodies: Any, array: Any, notebook: int | None = None) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        return peer.submit(bodies.hold, [(array, folder, WORKERS, notebook)] * WORKERS)


def _repeated(measure: Callable[[], float], at_most: int) -> list[float]:
    """Fewer times where it takes long."""
    began, found = perf_counter(), [measure()]
    while len(found) < at_most and perf_counter() - began < _PATIENCE_S:
        found.append(measure())
    return found


def _took_s(run: Callable[[], object]) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began


def _expect(result: object, expected: object) -> None:
    if result != expected:
        raise ArithmeticError(f"a worker gave {str(result)[:100]}, and not {str(expected)[:100]}")

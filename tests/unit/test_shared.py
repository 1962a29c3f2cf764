"""What processes share by a name (`wire.shared`), there and back again."""

import multiprocessing
from multiprocessing.managers import RemoteError
from multiprocessing.shared_memory import SharedMemory

import pytest

from tests.support.travels import stays, travelled
from wool_jupyter.wire import pickling, shared

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def manager():
    with FORK.Manager() as made:
        yield made


@pytest.fixture
def elsewhere(monkeypatch):
    """Another process's key."""

    def enter():
        process = multiprocessing.current_process()
        monkeypatch.setitem(process._config, "authkey", multiprocessing.process.AuthenticationString(b"other"))

    return enter


def made_by(manager):
    """Of each kind of proxy."""
    return [
        manager.dict(a=1),
        manager.list([1]),
        manager.Namespace(),
        manager.Lock(),
        manager.Queue(),
        manager.Value("i", 1),
    ]


def test_proxies_reach_their_manager_from_a_process_with_another_key(manager, elsewhere):
    proxies = made_by(manager)
    data = pickling.dumps(proxies)
    elsewhere()
    found = pickling.loads(data)
    assert list(map(type, found)) == list(map(type, proxies))
    found[0]["b"] = found[1].pop()
    found[2].x = 5
    assert (dict(proxies[0]), list(proxies[1]), proxies[2].x, found[5].value) == ({"a": 1, "b": 1}, [], 5, 1)
    found[4].put(7)
    assert proxies[4].get() == 7
    with found[3]:
        assert not proxies[3].acquire(False)
    assert shared.is_live_proxy(found[0])


def test_proxies_of_a_manager_that_is_gone_are_such_and_hide_nothing_that_follows():
    with FORK.Manager() as manager:
        proxies = made_by(manager)
        stays(manager)
        data = pickling.dumps([*proxies, "what follows"])
    *early, follows = pickling.loads(data)
    *late, again = travelled([*proxies, follows])
    assert follows == again == "what follows"
    for proxy, found in zip(proxies * 2, early + late, strict=True):
        assert type(found) is type(proxy)
        assert not shared.is_live_proxy(found)
    for each in (proxies, early, late):
        with pytest.raises(OSError, match=r"No such file|refused"):
            each[0].keys()


def test_a_proxy_of_what_its_manager_has_dropped_says_so(manager):
    proxy = manager.dict(a=1)
    data = pickling.dumps(proxy)
    del proxy
    found = pickling.loads(data)
    with pytest.raises(RemoteError, match="KeyError"):
        found.keys()


def test_a_manager_that_was_shut_down_is_over():
    with FORK.Manager() as manager:
        pass
    found = travelled(manager)
    assert (type(found), found.address) == (type(manager), manager.address)
    with pytest.raises(AssertionError, match="not yet started"):
        found.dict()
    found.shutdown()
    found.join()


def test_shared_memory_that_was_closed_is_closed():
    memory = SharedMemory(create=True, size=100)
    try:
        memory.buf[0] = 7
        other = pickling.loads(pickling.dumps(memory))
        assert other.buf[0] == 7
        other.close()
    finally:
        memory.close()
        memory.unlink()
    found = travelled(memory)
    assert (type(found), found.name, found.size, found.buf) == (SharedMemory, memory.name, memory.size, None)
    found.close()


def test_shared_memory_that_nobody_else_can_open_any_more_stays():
    memory = SharedMemory(create=True, size=100)
    memory.unlink()
    stays(memory)
    memory.close()

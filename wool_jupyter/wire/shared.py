"""What processes share by a name: a `multiprocessing.Manager` and its proxies, blocks of shared memory (`finished`).

One whose other side is gone arrives as such a one. Its own way to be loaded would fail, and with it the loading of what follows.
This takes private names (of Python 3.11).
"""

import os
import pickle
import sys
from typing import Any

Reduced = tuple[Any, ...]


def _proxy(proxy: Any) -> Reduced:
    """With its manager's key: each kernel and worker has another one by itself."""
    _, (maker, token, serializer, options) = proxy.__reduce__()
    return proxy_of, (maker, token, serializer, {**options, "authkey": bytes(proxy._authkey)})


def proxy_of(maker: Any, token: Any, serializer: str, options: dict[str, Any]) -> Any:
    from multiprocessing import AuthenticationError
    from multiprocessing.managers import RebuildProxy, RemoteError  # type: ignore[attr-defined]

    try:
        return RebuildProxy(maker, token, serializer, dict(options))
    except (
        OSError,
        EOFError,
        AuthenticationError,
        RemoteError,
    ):  # or the object there: what uses the proxy hears of it
        return maker(token, serializer, incref=False, **options)


def is_live_proxy(obj: Any) -> bool:
    """A proxy whose manager answers."""
    managers = sys.modules.get("multiprocessing.managers")
    if managers is None or not isinstance(obj, managers.BaseProxy):
        return False
    from multiprocessing import AuthenticationError

    try:
        with obj._Client(obj._token.address, authkey=obj._authkey) as connection:
            managers.dispatch(connection, None, "dummy")
    except (OSError, EOFError, AuthenticationError):
        return False
    return True


def _manager(manager: Any) -> Reduced | None:
    from multiprocessing.managers import State  # type: ignore[attr-defined]

    if manager._state.value != State.SHUTDOWN:
        return None
    return ended_manager, (type(manager), manager._address, manager._serializer)


def ended_manager(cls: Any, address: Any, serializer: str) -> Any:
    from multiprocessing.managers import BaseManager, State  # type: ignore[attr-defined]

    manager = cls.__new__(cls)
    BaseManager.__init__(manager, address, b"", serializer)
    manager._state.value, manager._process, manager.shutdown = State.SHUTDOWN, None, _nothing
    return manager


def _nothing() -> None:
    pass


def _memory(memory: Any) -> Reduced | None:
    if memory._mmap is None:
        return closed_memory, (type(memory), memory._name, memory._size)
    try:
        os.close(_open(memory._name))
    except FileNotFoundError:
        raise pickle.PicklingError("cannot pickle 'SharedMemory' object that was unlinked") from None
    return None


def _open(name: str) -> int:
    from _posixshmem import shm_open  # type: ignore[import-not-found]

    fd: int = shm_open(name, os.O_RDONLY, mode=0o600)
    return fd


def closed_memory(cls: Any, name: str, size: int) -> Any:
    memory = cls.__new__(cls)
    memory._name, memory._size = name, size
    return memory


REDUCERS = {
    ("multiprocessing.managers", "BaseProxy"): _proxy,
    ("multiprocessing.managers", "BaseManager"): _manager,
    ("multiprocessing.shared_memory", "SharedMemory"): _memory,
}

"""Run a heavy notebook cell in a worker process: `%load_ext wool_jupyter`, then `%%wool` on top of the cell.

Without a notebook: routines (`routine`) on the workers of a `WorkerPool`. A name is imported when it is first used.
"""

import logging
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from wool_jupyter.aio.fanout import Fanout, FanoutConsumer
    from wool_jupyter.aio.resource_pool import ResourcePool
    from wool_jupyter.balance.context import LoadBalancerContext, LoadBalancerContextView
    from wool_jupyter.balance.protocol import LoadBalancerLike
    from wool_jupyter.balance.round_robin import RoundRobinLoadBalancer
    from wool_jupyter.discovery.filtering import afilter
    from wool_jupyter.discovery.local import LocalDiscovery
    from wool_jupyter.discovery.protocol import DiscoveryLike, DiscoveryPublisherLike, DiscoverySubscriberLike
    from wool_jupyter.discovery.subscription import SubscriberMeta
    from wool_jupyter.dispatch.connection import WorkerConnection
    from wool_jupyter.dispatch.proxy import WorkerProxy
    from wool_jupyter.dispatch.routine import routine
    from wool_jupyter.errors import (
        BlockedOnOwnPool,
        CallFailed,
        CallRejected,
        CannotLoad,
        CannotShip,
        DiscoveryBlockExhausted,
        DiscoveryCapacityExhausted,
        DiscoveryNamespaceContended,
        DiscoveryNamespaceInUse,
        DiscoveryNamespaceNotFound,
        DiscoveryWorkerNotFound,
        JobCancelled,
        JobFailed,
        KeptOnWorker,
        MessageTooLarge,
        NoRoom,
        NotBound,
        NotReached,
        NoUsableRoot,
        NoWorkersAvailable,
        PayloadTooLarge,
        RpcError,
        StartFailed,
        StaysInKernel,
        WoolError,
        WorkerDied,
        WorkerRefused,
    )
    from wool_jupyter.notebook.dashboard import dashboard
    from wool_jupyter.pool.worker_pool import WorkerPool
    from wool_jupyter.records import ChannelOptions, DiscoveryEvent, WorkerMetadata
    from wool_jupyter.wire.shipping import FidelityWarning

logging.getLogger(__name__).addHandler(logging.NullHandler())  # a notebook would show it: who wants to read it says so

__all__ = [
    "BlockedOnOwnPool",
    "CallFailed",
    "CallRejected",
    "CannotLoad",
    "CannotShip",
    "ChannelOptions",
    "DiscoveryBlockExhausted",
    "DiscoveryCapacityExhausted",
    "DiscoveryEvent",
    "DiscoveryLike",
    "DiscoveryNamespaceContended",
    "DiscoveryNamespaceInUse",
    "DiscoveryNamespaceNotFound",
    "DiscoveryPublisherLike",
    "DiscoverySubscriberLike",
    "DiscoveryWorkerNotFound",
    "Fanout",
    "FanoutConsumer",
    "FidelityWarning",
    "JobCancelled",
    "JobFailed",
    "KeptOnWorker",
    "LoadBalancerContext",
    "LoadBalancerContextView",
    "LoadBalancerLike",
    "LocalDiscovery",
    "MessageTooLarge",
    "NoRoom",
    "NoUsableRoot",
    "NoWorkersAvailable",
    "NotBound",
    "NotReached",
    "PayloadTooLarge",
    "ResourcePool",
    "RoundRobinLoadBalancer",
    "RpcError",
    "StartFailed",
    "StaysInKernel",
    "SubscriberMeta",
    "WoolError",
    "WorkerConnection",
    "WorkerDied",
    "WorkerMetadata",
    "WorkerPool",
    "WorkerProxy",
    "WorkerRefused",
    "afilter",
    "dashboard",
    "routine",
]

_MODULES = {
    "aio.fanout": "Fanout FanoutConsumer",
    "aio.resource_pool": "ResourcePool",
    "balance.context": "LoadBalancerContext LoadBalancerContextView",
    "balance.protocol": "LoadBalancerLike",
    "balance.round_robin": "RoundRobinLoadBalancer",
    "discovery.filtering": "afilter",
    "discovery.local": "LocalDiscovery",
    "discovery.protocol": "DiscoveryLike DiscoveryPublisherLike DiscoverySubscriberLike",
    "discovery.subscription": "SubscriberMeta",
    "dispatch.connection": "WorkerConnection",
    "dispatch.proxy": "WorkerProxy",
    "dispatch.routine": "routine",
    "errors": (
        "BlockedOnOwnPool CallFailed CallRejected CannotLoad CannotShip DiscoveryBlockExhausted DiscoveryCapacityExhausted "
        "DiscoveryNamespaceContended DiscoveryNamespaceInUse DiscoveryNamespaceNotFound DiscoveryWorkerNotFound "
        "JobCancelled JobFailed KeptOnWorker MessageTooLarge "
        "NoRoom NoUsableRoot NoWorkersAvailable NotBound NotReached PayloadTooLarge "
        "RpcError StartFailed StaysInKernel WoolError WorkerDied WorkerRefused"
    ),
    "notebook.dashboard": "dashboard",
    "pool.worker_pool": "WorkerPool",
    "records": "ChannelOptions DiscoveryEvent WorkerMetadata",
    "wire.shipping": "FidelityWarning",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from wool_jupyter.wire.protocol import package_version

        return package_version()
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "pool"})


if TYPE_CHECKING:
    from wool_jupyter.notebook.pool import Pool, pool  # noqa: F401


# IPython's `?` would show docstrings of the three classes below as if they were about the module.


class _ByName(ModuleType):
    # Travels as other modules do, which pickle knows by their exact type.

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, (self.__name__,)


class _CallablePackage(_ByName):
    # Of the package `wool_jupyter.pool`.

    def __call__(self) -> "Pool":
        from wool_jupyter.notebook import on_demand

        with on_demand.beginning():
            from wool_jupyter.notebook.pool import pool

            return pool()


class _PoolPackage:
    """The import system sets `pool` to the package, whenever something in there is imported: it stays one that can be called. No
    `property`, as IPython's `?` shows nothing of the value of one."""

    def __get__(self, root: ModuleType | None, _owner: type) -> object:
        if root is None:
            return self
        package = import_module(f"{root.__name__}.pool")
        package.__class__ = _CallablePackage
        return package

    def __set__(self, root: ModuleType, package: ModuleType) -> None:
        pass


class _Root(_ByName):
    pool = _PoolPackage()


sys.modules[__name__].__class__ = _Root


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """Registers the magics; nothing starts."""
    from wool_jupyter.notebook import extension

    extension.load(shell)


def unload_ipython_extension(shell: "InteractiveShell") -> None:
    """Takes the magics away and stops the pool."""
    from wool_jupyter.notebook import extension

    extension.unload(shell)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "wool-jupyter-labextension"}]

"""What the constructors of proxies and pools refuse: each names the argument, and says what it has to be."""

import math
import operator
import warnings
from collections.abc import AsyncGenerator, Collection

from wool_jupyter.balance.protocol import LoadBalancerLike
from wool_jupyter.discovery.protocol import DiscoverySubscriberLike
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.settings import QUORUM_TIMEOUT_S


def whole(name: str, value: int, *, of: str = "") -> int:
    """TypeError for what is no whole number, which True and False are not meant as."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is a whole number{of}, not {value!r}") from None


def workers(name: str, value: int, *, least: int = 0) -> int:
    number = whole(name, value, of=" of workers")
    if number < least:
        raise ValueError(f"{name} is a number of workers, at least {least}, not {number}")
    return number


def seconds(name: str, value: float) -> float:
    """A finite one: None is for no end, where there may be none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is a time in seconds, not {value!r}")
    if not 0 < value < math.inf:
        raise ValueError(f"{name} is a time in seconds, above 0, not {value}")
    return float(value)


def tags(values: tuple[str, ...]) -> frozenset[str]:
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"a tag is a str, not {value!r}")
    return frozenset(values)


def flag(name: str, *, value: bool) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} is True or False, not {value!r}")
    return value


def subscriber(discovery: object) -> None:
    if isinstance(discovery, AsyncGenerator):  # it would pass for a subscriber, and can neither be shared nor pickled
        raise TypeError("discovery is an async generator: give the subscriber that makes them")
    if callable(discovery):
        raise TypeError(f"discovery is callable ({discovery!r}): give what it returns")
    if not isinstance(discovery, DiscoverySubscriberLike):
        raise TypeError(f"discovery has to be a subscriber, and {type(discovery).__name__} has no __aiter__")


def records(values: Collection[WorkerMetadata]) -> list[WorkerMetadata]:
    found = list(values)
    for value in found:
        if not isinstance(value, WorkerMetadata):
            raise TypeError(f"workers are records of WorkerMetadata, and {value!r} is none")
    return found


def balancer(loadbalancer: object) -> None:
    if loadbalancer is not None and not isinstance(loadbalancer, LoadBalancerLike):
        raise TypeError(f"{type(loadbalancer).__name__} is no balancer: it has no `delegate`")


def quorum(value: int | None, lease: int | None, known: int | None) -> int:
    """`known`: how many workers there are at most; None if that is not known."""
    if lease is not None:
        workers("lease", lease, least=1)
    number = 0 if value is None else workers("quorum", value)
    if lease is not None and number > lease:
        raise ValueError(f"a quorum of {number} is never there with a lease of {lease}")
    if known is not None and number > known:
        raise ValueError(f"a quorum of {number} is never there with {known} workers that can be asked")
    return number


def quorum_timeout(value: float | None, quorum: int) -> float:
    if value is None:
        return QUORUM_TIMEOUT_S
    timeout_s = seconds("quorum_timeout", value)
    if not quorum:
        warnings.warn("quorum_timeout has no effect without a quorum", stacklevel=3)
    return timeout_s

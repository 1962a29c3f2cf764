"""What a type checker makes of subscribers. Only mypy reads this file: a wrong line is an error of `make check`."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, assert_type

from wool_jupyter.discovery.filtering import afilter
from wool_jupyter.discovery.protocol import DiscoveryLike, DiscoverySubscriberLike
from wool_jupyter.discovery.subscription import SharedSubscription, SubscriberMeta
from wool_jupyter.records import DiscoveryEvent, WorkerMetadata


class _Raw:
    """What iterates; the public class adds only how it is shared and constructed."""

    def __init__(self, name: str, *, poll_s: float | None = None) -> None:
        self.name = name
        self.poll_s = poll_s

    async def __aiter__(self) -> AsyncGenerator[DiscoveryEvent, None]:
        for event in list[DiscoveryEvent]():
            yield event


class Subscriber(_Raw, metaclass=SubscriberMeta, key=lambda cls, name, **_: name):
    if TYPE_CHECKING:

        def __new__(cls, name: str, *, poll_s: float | None = None) -> DiscoverySubscriberLike: ...  # type: ignore[misc]


def constructing_a_subscriber_gives_the_protocol() -> None:
    assert_type(Subscriber("a", poll_s=1.0), DiscoverySubscriberLike)
    Subscriber()  # type: ignore[call-arg]
    Subscriber("a", poll_s="1")  # type: ignore[arg-type]
    _ = Subscriber("a").name  # type: ignore[attr-defined]  # there is no instance


async def an_iteration_gives_events() -> None:
    async for event in Subscriber("a"):
        assert_type(event, DiscoveryEvent)
    async for event in SharedSubscription("a", lambda: _Raw("a")):
        assert_type(event, DiscoveryEvent)


class _Numbers:
    async def __aiter__(self) -> AsyncGenerator[int, None]:
        yield 1


class _WrongSubscriber:
    def __aiter__(self) -> AsyncIterator[int]:
        raise NotImplementedError


def other_elements_are_rejected() -> None:
    SharedSubscription("a", _Numbers)  # type: ignore[arg-type]
    subscriber: DiscoverySubscriberLike = _WrongSubscriber()  # type: ignore[assignment]
    afilter(lambda metadata: True, _WrongSubscriber())  # type: ignore[arg-type]
    del subscriber


def a_subscription_is_a_subscriber(
    subscription: SharedSubscription, filtered: afilter
) -> list[DiscoverySubscriberLike]:
    return [subscription, filtered, afilter(lambda metadata: "gpu" in metadata.tags, subscription)]


def one_check_tells_a_service_from_a_subscriber(
    discovery: DiscoveryLike | DiscoverySubscriberLike,
) -> DiscoverySubscriberLike:
    if isinstance(discovery, DiscoveryLike):
        assert_type(discovery, DiscoveryLike)
        return discovery.subscribe(lambda metadata: assert_type(metadata, WorkerMetadata).secure)
    assert_type(discovery, DiscoverySubscriberLike)
    return discovery

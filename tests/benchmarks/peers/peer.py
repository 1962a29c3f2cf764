"""What each of the peers can do, so that the same work is measured for all. One module a peer, whose `Workers` is one.

They live in the kernel of a notebook, as they would for its user."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

Body = Callable[..., Any]


class Peer(Protocol):
    """Made with a number of workers, which may still be starting then; the first call waits for one of them."""

    died: tuple[type[BaseException], ...] = ()  # what a call may raise because a worker was killed
    cell: str | None = None  # the source by which a user has one worker run `{code}`; None: functions only
    variable: str | None = None  # the source of `{name}`, bound by such a cell
    replaces_the_dead: bool = True  # workers, by others

    def call(self, body: Body, *args: Any) -> Any:
        """Blocks."""

    def submit(self, body: Body, items: Iterable[Any]) -> list[Any]:
        """A call for each item, submitted one by one, and then all their results."""

    def map(self, body: Body, items: Iterable[Any]) -> list[Any]:
        """The same by the peer's own `map`, if it has one."""

    def placed(self, array: Any) -> Any:
        """Where workers find it, by hand: what a call is then given in its place. None if there is no such way."""
        return None

    def recover(self) -> None:
        """What a user has to do when a call has raised one of `died`, before the next."""

    def close(self) -> None:
        """Ends the workers."""


class ExecutorPeer(Peer):
    """By `submit` and `map` as `concurrent.futures` has them."""

    executor: Any

    def call(self, body: Body, *args: Any) -> Any:
        return self.executor.submit(body, *args).result()

    def submit(self, body: Body, items: Iterable[Any]) -> list[Any]:
        return [future.result() for future in [self.executor.submit(body, item) for item in items]]

    def map(self, body: Body, items: Iterable[Any]) -> list[Any]:
        return list(self.executor.map(body, items))

"""A worker's own way to the other workers of its pool: they run its calls while they have nothing else to do.

The pool itself is elsewhere: nothing stands in its line, and nothing grows. A worker that is busy refuses: two whose bodies wait
would wait for each other.
"""

import shutil
from pathlib import Path
from typing import NamedTuple
from uuid import UUID, uuid4

from wool_jupyter import host
from wool_jupyter.discovery.filtering import afilter
from wool_jupyter.discovery.local import LocalDiscovery
from wool_jupyter.dispatch.call import Call
from wool_jupyter.dispatch.proxy import WorkerProxy
from wool_jupyter.errors import CallFailed, NoWorkersAvailable, WorkerDied
from wool_jupyter.pool import ended
from wool_jupyter.pool.stopped import check_not_stopped
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.wire import batches, layout
from wool_jupyter.worker.identity import Identity

_AGAIN_S = 0.05  # before busy ones are asked again
_START_S = 2.0  # for another one to be there: a pool's second worker may be on its way


class Outcome(NamedTuple):
    data: bytes  # `calls.Outcome`
    text: str  # the directory in which the call's text lies, until `close`


class OtherWorkers:
    """Lives on one loop, as long as its process."""

    def __init__(self, own: Identity) -> None:
        self._generation = Path(own.directory).resolve()
        self._calls = self._generation / "calls"
        self._own = own
        self._found: WorkerProxy | None = None

    def _is_other(self, worker: WorkerMetadata) -> bool:
        return worker.uid != self._own.uid and layout.holds(self._own.directory, worker.address)

    def _check_not_stopped(self, uid: UUID) -> None:
        assert self._found is not None
        if (other := self._found.workers.workers.get(uid)) is not None:
            check_not_stopped(other.metadata.pid)

    def places(self) -> tuple[str, ...]:
        """For one call; removed by `forget`."""
        place = self._calls / f"lent-{uuid4().hex[:12]}"
        place.mkdir(mode=0o700)
        return (str(place),)

    def forget(self, places: tuple[str, ...]) -> None:
        for place in places:
            shutil.rmtree(place, ignore_errors=True)

    async def place(
        self, body: bytes, *, places: tuple[str, ...], ambient: dict[str, bytes], words: str
    ) -> "Lent | None":
        """None if none of them is free now. `words`: which call it is, for people."""
        proxy = await self._proxy()
        workers = 1 + len(proxy.workers.workers)
        batch = batches.Batch((), (batches.Item(1, -1, body),), True)
        threads = max(1, host.usable_cpus() // workers)
        opening = batches.encode(batches.Opening(places[0], places, ambient, batch, threads))
        try:
            return Lent(await proxy.dispatch("lent", opening), places[0], pool=self._generation, words=words)
        except NoWorkersAvailable:
            return None

    async def place_in_time(
        self, body: bytes, *, places: tuple[str, ...], ambient: dict[str, bytes], words: str
    ) -> "Lent":
        """Waits until one of them is free. `NoWorkersAvailable` when there is no other."""
        proxy = await self._proxy()
        while (lent := await self.place(body, places=places, ambient=ambient, words=words)) is None:
            if not proxy.workers.workers:
                await proxy.changed(within_s=_START_S)
                if not proxy.workers.workers:
                    raise NoWorkersAvailable(
                        "this worker is the only one of its pool, and busy with what submits the call"
                    )
            await proxy.changed(within_s=_AGAIN_S)
        return lent

    async def _proxy(self) -> WorkerProxy:
        if self._found is None:
            discovery = LocalDiscovery.borrow(self._generation.parent.name, root=self._generation.parents[1])
            self._found = WorkerProxy(discovery=afilter(self._is_other, discovery.subscriber), quorum=None)
            self._found.observe(placed=lambda _: None, failed=lambda _: False, asks=self._check_not_stopped)
            await self._found.start()
        return self._found


class Lent:
    """A call that another worker has taken. Ended by `outcome` or `close`."""

    def __init__(self, call: Call, directory: str, *, pool: Path, words: str) -> None:
        self._call = call
        self._pool = pool
        self._words = words
        self._directory = directory

    async def outcome(self) -> Outcome:
        call = self._call
        try:
            while not call.ended:
                data = await call.step()
                if data is None:
                    break
                for done in batches.decode_report(data).done:
                    return Outcome(done.outcome, batches.text_directory(self._directory, str(call.worker.uid)))
        except WorkerDied:
            died = await ended.read(self._pool, call.worker.uid) or "The worker was lost: it does not answer any more"
            raise WorkerDied(f"{died}. {self._words} may have run in part") from None
        finally:
            call.close()
        raise CallFailed("the worker ended a call without its outcome")

    async def close(self) -> None:
        self._call.close()

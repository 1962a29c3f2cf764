"""A pool whose main threads take virtual time: the real line, queue and runs, the worker's real side of a run, and no process."""

import asyncio
from uuid import uuid4

from tests.support.loops import settle, until
from wool_jupyter.aio.owned_tasks import OwnedTasks
from wool_jupyter.pool.call_item import Item
from wool_jupyter.pool.call_queue import CallQueue
from wool_jupyter.pool.futures import Callbacks, Future
from wool_jupyter.pool.pacing import Cost
from wool_jupyter.pool.slots import Slots
from wool_jupyter.records import WorkerMetadata
from wool_jupyter.wire import batches, calls, frames
from wool_jupyter.worker.batch_routine import batch_routine

WAY_S = 0.001  # of a message


class _Job:
    def __init__(self, done):
        self.done = done


class _Worker:
    """A `MainLane` and a `CallRunner` in one: each call waits as long as it says."""

    def __init__(self, pool, number):
        self.number = number
        self.metadata = WorkerMetadata(uuid4(), f"unix:/{number}", 1, "x", frozenset())
        self._pool = pool
        self._interrupted = asyncio.Event()
        self.routine = batch_routine(self, self)

    def submit(self, run, *args):
        return _Job(self._pool.tasks.start(run(*args), "main thread", awaited=True))

    def interrupt(self, job):
        if not job.done.done():
            self._interrupted.set()

    async def run(self, opening, parts, listener):
        loop = asyncio.get_running_loop()
        item = parts.take()
        while item is not None:
            began, name = loop.time(), item.call.decode()
            self._pool.began.append((name, self.number))
            self._interrupted.clear()
            try:
                async with asyncio.timeout(self._pool.durations[name]):
                    await self._interrupted.wait()
            except TimeoutError:
                outcome = calls.pack_outcome(name, places=())
            else:
                outcome = calls.pack_raised(KeyboardInterrupt())
            done = batches.Done(item.number, outcome, loop.time() - began)
            item = parts.take()
            listener.done(done, goes_on=False, is_last=item is None)


class _Call:
    """`call_run.Running`."""

    def __init__(self, pool, worker, body):
        self._pool, self._worker, self._body = pool, worker, worker.routine(body)
        self._begun = self.ended = self._rests = False
        self._given = None

    @property
    def worker(self):
        return self._worker.metadata

    def recall(self):
        self._body.recall()

    async def interrupt(self):
        self._body.interrupt()

    async def step(self):
        self._pool.messages += 1
        await asyncio.sleep(WAY_S)
        if not self._begun:
            self._begun = True
            await self._body.begin()
        answer, self._given = self._given, None
        command = frames.Next(1) if answer is None else frames.Send(1, answer)
        # Who gives up waiting does not end it.
        data, last = await asyncio.shield(self._body.step(command))
        await asyncio.sleep(WAY_S)
        self.ended = last
        return data

    def rest(self):
        self._rests = True
        self._pool.free.insert(0, self._worker)
        self._pool.line.add()

    def go_on(self):
        if self._worker not in self._pool.free or not self._pool.line.take_at_once():
            return False
        self._rests = False
        self._pool.free.remove(self._worker)
        return True

    def give(self, answer):
        self._given = answer

    async def close(self):
        if not self.ended:
            await self._body.close()
        if not self._rests:
            self._pool.free.append(self._worker)
            self._pool.line.add()


class VirtualPool:
    """`call_queue.Threads`, its queue, and what was called. Calls are names; `durations` says what they take."""

    def __init__(self, workers, durations=None):
        self.main_threads = workers
        self.line = Slots()
        self.durations = durations or {}
        self.began = []  # (name, number of the worker)
        self.messages = 0
        self.runs = 0
        self.tasks = OwnedTasks("virtual pool")
        self.free = [_Worker(self, number) for number in range(workers)]
        self.queue = CallQueue(self)
        self.costs = {}
        self._callbacks = Callbacks()
        for _ in self.free:
            self.line.add()

    def pins(self, _uid):
        return False

    async def run(self, _routine, body, *, about, who):
        await self.line.take(who)
        self.runs += 1
        worker = self.free.pop(0)
        try:
            return _Call(self, worker, body())
        except BaseException:
            self.free.append(worker)
            self.line.add()
            raise

    def items(self, *names, origin, ambient=None, function="f"):
        """Calls of one function have a common cost."""
        cost = self.costs.setdefault(function, Cost())
        items = [
            Item(
                future=Future(self._callbacks),
                origin=origin,
                ambient=origin.state if ambient is None else ambient,
                label=name,
                words=name,
                cost=cost,
                retries=0,
                settled=origin.settled,
                native_threads=1,
                grace_s=1.0,
                call=name.encode(),
            )
            for name in names
        ]
        for item in items:
            origin.submitted(item)
        return items

    def put(self, *names, **options):
        """Their futures."""
        items = self.items(*names, **options)
        self.queue.put(items)
        return [item.future for item in items]

    async def all_done(self, futures):
        await until(lambda: all(future.done() for future in futures))
        await settle()

    async def close(self):
        await self.queue.stop()
        await self.tasks.close()


class Origin:
    """`call_item.Origin`."""

    def __init__(self, name="origin"):
        self.name, self.directory, self.places = name, "/nowhere", ()
        self.state = {}
        self.unfinished = 0

    def ambient(self):
        return self.state

    def submitted(self, _call):
        self.unfinished += 1

    def settled(self, _call):
        self.unfinished -= 1

    def ready(self, worker):
        pass

    def printed(self, worker, shown, *, goes_on, is_idle):
        pass

    def lost(self, worker):
        pass

    def notice(self, text):
        pass

    def queued(self):
        pass

"""An executor on a pool of real workers, as code in a notebook has it, without a notebook."""

import itertools
import os
import tempfile
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.pools import lives, names_in, pool_in, pool_processes
from tests.support.requests import cell_request
from tests.support.waiting import wait_until
from wool_jupyter.discovery.root import kernel_namespace
from wool_jupyter.discovery.subscription import subscriber_pool
from wool_jupyter.dispatch import channels
from wool_jupyter.notebook.bridge import Bridge
from wool_jupyter.notebook.outputs import TextReader
from wool_jupyter.pool.executor import Executor, Terms
from wool_jupyter.pool.home import Home
from wool_jupyter.pool.intake import Intake
from wool_jupyter.settings import PoolSettings
from wool_jupyter.wire import ambient, batches


class Submitter:
    """Keeps what its calls print, by worker."""

    def __init__(self, places, store):
        self.places, self.directory, self.store = places, places[0], store
        self.text = {}
        self.unfinished = set()
        self.go_on = set()  # workers where threads or children of its calls are left
        self._lock = threading.Lock()
        self._readers = {}
        self._state = None

    def ambient(self):
        seen = ambient.key_of_calls()
        if self._state is None or self._state[0] != seen:
            self._state = seen, ambient.of_calls()
        return self._state[1]

    def submitted(self, call):
        with self._lock:
            self.unfinished.add(call)

    def notice(self, text):
        pass

    def queued(self):
        pass

    def settled(self, call):
        with self._lock:
            self.unfinished.discard(call)

    def ready(self, worker):
        if worker not in self._readers:
            directory = batches.text_directory(self.directory, str(worker))
            Path(directory).mkdir(exist_ok=True)
            self._readers[worker] = TextReader(directory)

    def _take(self, worker, parts):
        self.text[worker] = self.text.get(worker, "") + "".join(text for _, text in parts)

    def printed(self, worker, shown, *, goes_on, is_idle):
        self._take(worker, self._readers[worker].ready())
        (self.go_on.add if goes_on else self.go_on.discard)(worker)

    def lost(self, worker):
        reader = self._readers.pop(worker, None)
        if reader is not None:
            self._take(worker, reader.rest())
            reader.close()

    def close(self):
        for reader in self._readers.values():
            reader.close()


class _Executor(Executor):
    """A test that fails does not wait for what it holds."""

    def __exit__(self, kind, error, trace):
        if error is not None:
            self.interrupt()
        return super().__exit__(kind, error, trace)


class Bench:
    def __init__(self, pool, bridge, submitter):
        self.pool, self.bridge, self.submitter = pool, bridge, submitter
        self.forget_costs()

    def forget_costs(self):
        """What calls took so far: where they were short, more are sent ahead of one that runs, and can't be cancelled."""
        self.intake = Intake(self.pool.calls, self.bridge.post, main_threads=lambda: self.pool.main_threads)

    def executor(self, *, submitter=None, **options):
        return _Executor(lambda: self.intake, lambda: submitter or self.submitter, Terms(**options))

    def begin_cell(self, directory, source):
        """A cell, beside the calls. Its text goes to `directory`. The future of its worker's pid."""
        directory.mkdir()

        async def whole():
            call = await self.pool.run("cell", cell_request(source, directory))
            try:
                while not call.ended:
                    await call.step()
            finally:
                await call.close()
            return call.worker.pid

        return self.bridge.enter(whole())

    def on_loop(self, function, *args):
        async def asked():
            return function(*args)

        return self.bridge.enter(asked()).result(30)

    def workers(self):
        return self.on_loop(self.pool.crew.snapshot)


async def _left(home):
    await home.leave()
    await subscriber_pool().clear()
    await channels.of_this_loop().clear()


@contextmanager
def pool_of(workers=None, **settings):
    """Whatever a test does to it, it leaves no process, no file and no call."""
    numbers = itertools.count()
    bridge = Bridge()
    with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as top, ExitStack() as resources:
        name = kernel_namespace(f"/run/{next(numbers)}.json")
        home = bridge.enter(Home.enter(name, within=Path(top))).result(30)
        starting = pool_in(home, PoolSettings(workers=workers, **settings))
        pool = bridge.enter(starting).result(60)
        processes = pool_processes(os.getpid())
        submitter = Submitter(resources.enter_context(home.call_directories()), home.store)
        try:
            yield Bench(pool, bridge, submitter)
        finally:
            processes += pool_processes(os.getpid())
            bridge.enter(pool.stop()).result(30)
            wait_until(lambda: not submitter.unfinished)
            submitter.close()
            resources.close()
            bridge.enter(_left(home)).result(30)
            wait_until(lambda: not any(map(lives, processes)))
            assert names_in(top) == []

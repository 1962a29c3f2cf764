"""A proxy over a namespace that another process owns, and workers in processes of their own."""

import os
import signal
from dataclasses import replace
from uuid import uuid4

import pytest

from tests.support.discovery_process import Interpreter
from tests.support.loops import run, until
from tests.support.requests import cell_request
from tests.support.worker_process import ended, pool_directory, started
from wool_jupyter.discovery.local import LocalDiscovery
from wool_jupyter.discovery.subscriber import LocalSubscriber
from wool_jupyter.dispatch import channels
from wool_jupyter.dispatch.proxy import WorkerProxy
from wool_jupyter.errors import DiscoveryNamespaceNotFound, NoWorkersAvailable


async def pid_that_serves(proxy, directory):
    call_directory = directory / uuid4().hex
    call_directory.mkdir()
    said = call_directory / "pid"
    source = f"import os\nopen({str(said)!r}, 'w').write(str(os.getpid()))"
    call = await proxy.dispatch("cell", cell_request(source, call_directory))
    while not call.ended:
        await call.step()
    return int(said.read_text())


@pytest.mark.case("LB-51", "LB-52", "LB-53", "REG-29")
def test_a_proxy_follows_a_worker_to_another_process_and_hears_of_its_end(root, tmp_path):
    with (
        Interpreter("own", root) as owner,
        pool_directory() as one,
        pool_directory() as two,
        started(one) as first,
        started(two) as second,
    ):
        assert owner.hear() == "entered"

        async def main():
            publisher = LocalDiscovery.borrow("n", root=root).publisher
            before, after = first.metadata, replace(second.metadata, uid=first.uid)
            subscriber = LocalSubscriber("n", root=root, liveness_interval_s=0.1)
            async with WorkerProxy(discovery=subscriber, lease=1) as proxy:
                await publisher.publish("worker-added", before)
                assert await pid_that_serves(proxy, tmp_path) == first.pid
                await publisher.publish("worker-updated", after)
                await until(lambda: proxy.workers.workers[first.uid].metadata == after)
                assert await pid_that_serves(proxy, tmp_path) == second.pid
                os.kill(first.pid, signal.SIGKILL)
                await until(lambda: ended(first.pid))
                assert await pid_that_serves(proxy, tmp_path) == second.pid
                await publisher.publish("worker-dropped", after)
                await until(lambda: not proxy.workers.workers)
                with pytest.raises(NoWorkersAvailable):
                    await pid_that_serves(proxy, tmp_path)
                owner.kill()
                await until(lambda: proxy.failure)
                with pytest.raises(DiscoveryNamespaceNotFound, match="'n'"):
                    await pid_that_serves(proxy, tmp_path)
            publisher.close()
            await channels.of_this_loop().clear()

        run(main(), 60)

"""What a panel gets to see of a kernel's pool and what it can do, also while the main thread is busy."""

import asyncio
import os
import signal
from time import monotonic
from uuid import uuid4

import pytest

from tests.support.kernel import TIMEOUT_S, Kernel
from tests.support.panel import Panel
from tests.support.pools import pool_processes, pool_workers
from tests.support.waiting import wait_until
from wool_jupyter.discovery.local import LocalDiscovery
from wool_jupyter.discovery.root import kernel_namespace
from wool_jupyter.notebook.lab_link import REQUEST, TARGET
from wool_jupyter.records import WorkerMetadata

WAITS = "%%wool\nimport threading\nprint('begun', flush=True)\nthreading.Event().wait()"


@pytest.fixture
def panel(fresh_kernel):
    panel = Panel(fresh_kernel)
    panel.hello()
    return panel


@pytest.fixture
def start_kernel():
    """Without the extension."""
    kernels = []

    def start():
        kernels.append(Kernel())
        return kernels[-1]

    yield start
    for kernel in kernels:
        kernel.shutdown()


def states(snapshot):
    return [worker.state for worker in snapshot.workers]


def by_state(snapshot, state):
    return next(worker for worker in snapshot.workers if worker.state == state)


def all_idle(workers):
    return lambda snapshot: snapshot.pool.state == "running" and states(snapshot) == ["idle"] * workers


def busy(panel, kernel):
    """A cell that waits for ever, and its worker."""
    cell = kernel.begin(WAITS)
    cell.wait_for("begun")
    return cell, by_state(panel.shows(lambda snapshot: "busy" in states(snapshot)), "busy")


def test_a_kernel_is_announced_when_it_loads_the_extension_and_silent_until_a_panel_says_hello(fresh_kernel):
    panel = Panel(fresh_kernel)
    panel.take_in()
    fresh_kernel.wool("x = 1")
    panel.take_in()
    assert (panel.words, panel.snapshots) == (["loaded"], [])
    panel.hello()
    assert panel.latest.pool.state == "running"


def test_a_pool_that_code_starts_is_seen_and_looked_after_as_well(start_kernel):
    kernel = start_kernel()
    panel = Panel(kernel)
    kernel.ok("import wool_jupyter\npool = wool_jupyter.pool()")
    panel.take_in()
    assert panel.words == ["loaded"]
    panel.hello()
    assert panel.latest.pool.state == "running"
    assert "worker" in kernel.ok("%wool status").stdout
    kernel.ok("%config Wool.workers = 1\n%load_ext wool_jupyter\nwool_jupyter.pool()")
    assert kernel.value("get_ipython().magics_manager.registry['Wool'].workers") == 1
    assert kernel.value("[type(each).__name__ for each in get_ipython().configurables].count('Wool')") == 1
    panel.take_in()
    assert panel.words == ["loaded"]


def test_loading_and_hello_without_a_pool_import_nothing_of_its_side(fresh_kernel):
    Panel(fresh_kernel).hello()
    assert fresh_kernel.value("'grpc' in __import__('sys').modules") is False


def test_loading_imports_nothing_that_takes_long():
    kernel = Kernel()
    try:
        kernel.ok("%load_ext wool_jupyter")
        for module in ("msgspec", "cloudpickle", "wool_jupyter.host", "wool_jupyter.notebook.feed"):
            assert kernel.value(f"{module!r} in __import__('sys').modules") is False, module
    finally:
        kernel.shutdown()


def test_a_pool_is_seen_to_start_and_to_stop(panel, fresh_kernel):
    fresh_kernel.begin("%wool start -n 2")
    started = panel.shows(all_idle(2))
    assert started.pool.size == started.pool.most == 2
    assert started.pool.namespace.startswith("k")
    assert {worker.pid for worker in started.workers} == {each.pid for each in pool_workers(fresh_kernel.pid)}
    assert panel.ask("stop") == ""
    assert panel.shows(lambda snapshot: not snapshot.workers).pool.state == "none"
    wait_until(lambda: pool_processes(fresh_kernel.pid)[1:] == [])  # the template, too


def test_a_panel_is_answered_while_another_thread_imports_the_pool_s_side(fresh_kernel):
    panel = Panel(fresh_kernel)
    fresh_kernel.begin("%wool start -n 1")
    number = 0
    while not any(taken.pool.state == "running" for taken in panel.snapshots):
        panel.say(do="hello", id=number)
        assert panel.answer(number)["error"] == ""
        number += 1


def test_a_running_cell_is_seen_on_its_worker_and_afterwards_what_came_of_it(panel, fresh_kernel):
    fresh_kernel.ok("%wool start -n 1")
    panel.shows(all_idle(1))
    cell, worker = busy(panel, fresh_kernel)
    assert worker.running.kind == "cell"
    assert worker.running.label.startswith("In[")
    assert worker.bytes_in > 0
    assert panel.ask("interrupt", worker=worker.uid) == ""
    assert cell.result().error.ename == "KeyboardInterrupt"
    ended = panel.shows(all_idle(1)).workers[0]
    assert (ended.uid, ended.done, ended.running) == (worker.uid, 1, None)


def test_the_badge_of_a_cell_follows_its_run(panel, fresh_kernel):
    def run(code, cell):
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": False}
        fresh_kernel.client.shell_channel.send(
            fresh_kernel.client.session.msg("execute_request", content, metadata={"cellId": cell})
        )

    def shown(cell, state):
        return lambda snapshot: any(each.cell == cell and each.state == state for each in snapshot.cells)

    run("%%wool\nx = bytes(300_000)", "first")
    ok = panel.shows(shown("first", "ok")).cells[0]
    assert ok.bytes_out >= 300_000
    assert ok.ended >= ok.since
    run("%%wool\n1/0", "second")
    panel.shows(shown("second", "error"))
    run("%%wool\nimport os\nos._exit(3)", "third")
    died = panel.shows(shown("third", "died"))
    assert [cell.cell for cell in died.cells] == ["first", "second", "third"]
    assert by_state(died, "dead").uid == died.cells[2].worker
    assert by_state(died, "dead").why == "exited with code 3"
    run("%%wool\nlen(x)", "first")
    assert [cell.cell for cell in panel.shows(shown("first", "ok")).cells] == ["second", "third", "first"]


def test_a_killed_worker_is_seen_dead_with_its_reason_and_replaced(panel, fresh_kernel):
    fresh_kernel.wool("import os")
    victim = panel.shows(all_idle(2)).workers[0]
    os.kill(victim.pid, signal.SIGKILL)
    dead = panel.shows(lambda snapshot: "dead" in states(snapshot))
    assert by_state(dead, "dead").uid == victim.uid
    assert "SIGKILL" in by_state(dead, "dead").why
    replaced = panel.shows(lambda snapshot: states(snapshot).count("idle") == 2)
    assert victim.pid not in {worker.pid for worker in replaced.workers if worker.state == "idle"}


def test_a_worker_of_another_owner_is_seen_when_it_comes_and_when_it_goes(panel, fresh_kernel):
    fresh_kernel.ok("%wool start -n 1")
    panel.shows(all_idle(1))
    namespace = kernel_namespace(fresh_kernel.manager.connection_file)
    publisher = LocalDiscovery.borrow(namespace).publisher
    other = WorkerMetadata(uuid4(), "unix:/nowhere", os.getpid(), "1.0", frozenset({"gpu", "<b>"}))
    asyncio.run(publisher.publish("worker-added", other))
    borrowed = panel.shows(lambda snapshot: len(snapshot.workers) == 2 and snapshot.workers[1].rss is not None).workers[
        1
    ]
    assert (borrowed.own, borrowed.uid, borrowed.tags, borrowed.state) == (False, other.uid.hex, ("<b>", "gpu"), "idle")
    assert panel.latest.pool.size == 1
    assert "belongs to another process" in panel.ask("restart", worker=other.uid.hex)
    assert "of another process" in fresh_kernel.ok("%wool status").stdout
    asyncio.run(publisher.publish("worker-dropped", other))
    assert "owner" in by_state(panel.shows(lambda snapshot: "dead" in states(snapshot)), "dead").why


def test_a_pool_that_was_lost_says_so_and_the_next_cell_has_a_new_one(panel, fresh_kernel):
    fresh_kernel.wool("x = 1")
    panel.shows(all_idle(2))
    os.kill(pool_processes(fresh_kernel.pid)[0].pid, signal.SIGKILL)
    lost = panel.shows(lambda snapshot: snapshot.pool.state == "lost" and states(snapshot) == ["dead", "dead"])
    assert "has ended" in lost.pool.why
    fresh_kernel.wool("x = 2")
    panel.shows(lambda snapshot: snapshot.pool.state == "running")


def test_buttons_work_while_a_cell_runs(panel, fresh_kernel):
    fresh_kernel.ok("%wool start -n 1")
    cell, worker = busy(panel, fresh_kernel)
    assert panel.ask("scale", workers=2) == ""
    panel.shows(lambda snapshot: sorted(states(snapshot)) == ["busy", "idle"])
    assert panel.ask("scale", workers=1) == ""
    panel.shows(lambda snapshot: states(snapshot) == ["busy"])
    assert panel.ask("restart", worker=worker.uid[:6]) == ""
    error = cell.result().error
    assert error.ename == "WorkerDied"
    assert "as was asked" in error.evalue
    panel.shows(lambda snapshot: states(snapshot).count("idle") == 1)
    assert panel.answered_to == {REQUEST}  # and not to a cell, whose output they would be


def test_an_interrupt_counts_as_one_of_the_notebook(panel, fresh_kernel):
    """A cell that handles it works on; a second one says where it stands, a third ends its worker."""
    fresh_kernel.ok("%wool start -n 1")
    cell = fresh_kernel.begin(
        "%%wool\nimport threading\nwaits = threading.Event().wait\n"
        "try:\n    print('begun', flush=True)\n    waits()\n"
        "except KeyboardInterrupt:\n    print('goes on', flush=True)\n    waits()"
    )
    cell.wait_for("begun")
    worker = by_state(panel.shows(lambda snapshot: "busy" in states(snapshot)), "busy").uid
    for shown in ("goes on", "was interrupted", "its worker was ended"):
        assert panel.ask("interrupt", worker=worker) == ""
        if shown != "its worker was ended":
            cell.wait_for(shown)
    result = cell.result()
    assert shown in result.stderr
    assert result.error.ename == "KeyboardInterrupt"


def test_a_worker_that_drains_stays_if_its_cell_leaves_a_value_there(panel, fresh_kernel, tmp_path):
    """The value pins it before the call is over, or the worker would have gone by the time that the kernel has the handle."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    fresh_kernel.ok("%wool start -n 2")
    panel.shows(all_idle(2))
    home = int(fresh_kernel.wool("import os, threading; os.getpid()").value)  # the next cell runs there, too
    other = next(worker.uid for worker in panel.latest.workers if worker.pid != home)
    fresh_kernel.ok(
        "import uuid\nfrom wool_jupyter.notebook.runtime import runtime\nfrom wool_jupyter.wire.cells import KeptResult\n"
        "result = KeptResult('value', 'of another cell', 'object', 'why')\n"
        f"there = runtime().handles.make(result, uuid.UUID({other!r}), cell=1)"
    )
    cell = fresh_kernel.begin(
        f"%%wool\nprint('begun', flush=True)\nopen({str(gate)!r}).read()\nkept = threading.Lock()"
    )
    cell.wait_for("begun")
    assert panel.ask("scale", workers=1) == ""
    assert by_state(panel.shows(lambda snapshot: "draining" in states(snapshot)), "draining").pid == home
    gate.write_text("")
    cell.result()
    panel.shows(all_idle(2))
    assert int(fresh_kernel.wool("kept.locked()\nos.getpid()").value) == home


def test_buttons_work_during_a_plain_cell(panel, fresh_kernel):
    """Python code of the main thread lets the control channel's thread have its turn."""
    fresh_kernel.ok("%wool start -n 1")
    cell = fresh_kernel.begin("import threading\nprint('begun')\nthreading.Event().wait()")
    cell.wait_for("begun")
    assert panel.ask("scale", workers=2) == ""
    panel.shows(all_idle(2))
    fresh_kernel.interrupt()
    cell.result()


def test_a_panel_can_start_the_first_pool(panel, fresh_kernel):
    assert panel.ask("start", workers=1) == ""
    panel.shows(all_idle(1))
    assert fresh_kernel.wool("print('ran')").stdout == "ran\n"


def test_what_can_not_be_done_is_said_in_words(panel, fresh_kernel):
    assert panel.ask("interrupt", worker="0" * 32) == "no pool runs"
    fresh_kernel.ok("%wool start -n 1")
    worker = panel.shows(all_idle(1)).workers[0]
    assert "there is no worker" in panel.ask("restart", worker="zz")
    assert "runs nothing" in panel.ask("interrupt", worker=worker.uid)
    for nonsense in ({"workers": 0}, {"workers": True}, {"workers": "many"}, {}):
        assert "not understood" in panel.ask("scale", **nonsense)
    assert "not understood" in panel.ask("dance")
    assert "not understood" in panel.ask("restart")
    panel.say(id=77)
    assert "not understood" in panel.answer(77)["error"]


def test_the_use_of_cpu_and_memory_is_measured_only_while_somebody_looks(panel, fresh_kernel):
    fresh_kernel.ok("%wool start -n 1")
    seen = panel.shows(lambda snapshot: bool(snapshot.workers) and snapshot.workers[0].cpu is not None).workers[0]
    assert seen.peak >= seen.rss > 1 << 20
    fresh_kernel.ok("from wool_jupyter.notebook import feed as _f\n_f.door().feed._looked_until = 0")
    panel.shows(lambda snapshot: bool(snapshot.workers) and snapshot.workers[0].rss is None)
    panel.say(do="seen")
    panel.shows(lambda snapshot: bool(snapshot.workers) and snapshot.workers[0].rss is not None)


def test_a_page_loaded_anew_while_the_kernel_is_busy_sees_the_pool_and_is_heard(panel, fresh_kernel):
    cell, worker = busy(panel, fresh_kernel)
    again = Panel(fresh_kernel)
    again.until(lambda: again.snapshots)
    assert by_state(again.snapshots[0], "busy").uid == worker.uid
    assert again.ask("interrupt", worker=worker.uid) == ""
    assert cell.result().error.ename == "KeyboardInterrupt"


def test_unloading_takes_the_requests_and_the_feed_away(panel, fresh_kernel):
    fresh_kernel.ok("%wool start -n 1")
    panel.shows(all_idle(1))
    fresh_kernel.client.execute("%unload_ext wool_jupyter")  # what it publishes is of that cell
    panel.until(lambda: panel.words == ["loaded", "unloaded"])
    seen = len(panel.snapshots)
    fresh_kernel.ok("%load_ext wool_jupyter\n%unload_ext wool_jupyter\nimport threading\nthreading.Event().wait(6)")
    panel.take_in()
    assert panel.words == ["loaded", "unloaded"] * 2
    assert len(panel.snapshots) == seen  # no heartbeat
    assert fresh_kernel.value(f"get_ipython().kernel.control_handlers[{REQUEST!r}].__name__") == REQUEST
    fresh_kernel.ok("%load_ext wool_jupyter")
    again = Panel(fresh_kernel)
    again.hello()
    assert again.latest.pool.state == "none"


def comms_of(kernel, **content):
    client = kernel.client
    client.control_channel.send(client.session.msg(REQUEST, content))
    answer = client.get_control_msg(timeout=TIMEOUT_S)
    assert answer["msg_type"] == "comm_info_reply"
    return answer["content"]["comms"].keys()


def test_what_others_ask_of_the_kernel_is_answered_as_before(fresh_kernel):
    fresh_kernel.ok("from comm import create_comm\n_c = create_comm(target_name='theirs', comm_id='their comm')")
    assert comms_of(fresh_kernel, target_name="theirs") == {"their comm"}
    assert comms_of(fresh_kernel, target_name="nobody's") == set()
    assert comms_of(fresh_kernel) >= {"their comm"}


def test_who_has_put_a_handler_of_requests_before_ours_may_keep_it_when_wool_is_unloaded(fresh_kernel):
    fresh_kernel.ok(
        f"handlers, kind = get_ipython().kernel.control_handlers, {REQUEST!r}\n"
        "before = handlers[kind]\nhandlers[kind] = theirs = lambda *message: before(*message)\n"
        "%unload_ext wool_jupyter"
    )
    assert comms_of(fresh_kernel, target_name=TARGET, request={"do": "hello"}) == set()  # as of any kernel without wool
    assert fresh_kernel.value("handlers[kind] is theirs") is True


def test_snapshots_come_at_most_five_times_a_second(panel, fresh_kernel):
    fresh_kernel.ok("%wool start -n 1")
    panel.shows(all_idle(1))
    first = len(panel.snapshots)
    fresh_kernel.ok("for i in range(200): get_ipython().run_cell_magic('wool', '', 'pass')")
    panel.take_in()
    taken = [snapshot.time for snapshot in panel.snapshots[first:]]
    assert len(taken) >= 2
    assert len(taken) <= 2 + (taken[-1] - taken[0]) * 5


@pytest.mark.parametrize("ending", ["restart", "killed"])
def test_a_kernel_that_was_restarted_is_followed_anew(ending, fresh_kernel):
    Panel(fresh_kernel).hello()
    fresh_kernel.wool("x = 1")
    fresh_kernel.restart(now=ending == "killed")
    fresh_kernel.ok("%load_ext wool_jupyter")
    panel = Panel(fresh_kernel)
    panel.hello()
    fresh_kernel.wool("x = 1")
    panel.shows(lambda snapshot: snapshot.pool.state == "running")


def test_the_kernel_ends_at_once_with_a_panel_and_a_pool():
    kernel = Kernel()
    try:
        kernel.ok("%load_ext wool_jupyter")
        panel = Panel(kernel)
        panel.hello()
        kernel.wool("x = 1")
        panel.shows(lambda snapshot: snapshot.pool.state == "running")
    finally:
        began = monotonic()
        kernel.shutdown()
    assert monotonic() - began < 5

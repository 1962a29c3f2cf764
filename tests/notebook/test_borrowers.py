"""Other processes of the user that ask the workers of a notebook."""

from tests.support.pool_process import PoolProcess
from wool_jupyter.discovery.root import kernel_namespace


def test_another_process_runs_routines_on_the_workers_of_a_notebook(fresh_kernel, tmp_path):
    """Beside its cells, and with nothing but the name of its namespace: who may read its files has the token from there."""
    fresh_kernel.ok("%wool start -n 1")
    fresh_kernel.wool("import os\npid = os.getpid()")
    pid = fresh_kernel.value("pid")
    with PoolProcess("borrow", kernel_namespace(fresh_kernel.manager.connection_file)) as borrower:
        assert int(borrower.ask("ask")) == pid
        gate = tmp_path / "gate"
        waits = f"import pathlib, time\nprint('inside')\nwhile not pathlib.Path({str(gate)!r}).exists():\n    time.sleep(0.01)"
        cell = fresh_kernel.begin(f"%%wool\n{waits}")
        cell.wait_for("inside")
        assert int(borrower.ask("ask")) == pid  # its main thread is busy, and routines have a loop of their own
        gate.touch()
        assert cell.result().status == "ok"
        fresh_kernel.run("%%wool\nos._exit(3)")
        fresh_kernel.wool("pid = os.getpid()")
        successor = fresh_kernel.value("pid")
        answers = (borrower.ask("ask") for _ in range(100))
        assert int(next(filter(str.isdigit, answers))) == successor != pid  # it hears of both in its own time
        fresh_kernel.shutdown()
        assert "DiscoveryNamespaceNotFound" in borrower.ask("ask")
        assert borrower.end() == 0

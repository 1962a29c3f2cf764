import os
import signal
import sys

import pytest

from wool_jupyter.worker.cell.gate import Gate


@pytest.fixture
def gate():
    before = signal.getsignal(signal.SIGINT)
    gate = Gate()
    gate.install()
    yield gate
    signal.signal(signal.SIGINT, before)


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):  # the handler runs between two instructions
        pass


def notes_interrupt():
    try:
        interrupt()
    except KeyboardInterrupt:
        return "interrupted"
    return "went on"


def is_left_alone(gate):
    """An interrupt that is not caught would end the whole run."""
    try:
        return gate.region(int) == 0
    except KeyboardInterrupt:
        return False


def test_an_interrupt_of_a_region_is_a_keyboard_interrupt(gate):
    gate.open()
    assert gate.region(notes_interrupt) == "interrupted"


def test_a_region_passes_arguments_and_value_on(gate):
    gate.open()
    assert gate.region(divmod, 17, 5) == (3, 2)


def test_an_interrupt_between_two_regions_is_picked_up_by_the_next_and_only_that(gate):
    gate.open()
    assert notes_interrupt() == "went on"
    ran = []
    with pytest.raises(KeyboardInterrupt):
        gate.region(ran.append, 1)
    gate.region(ran.append, 2)
    assert ran == [2]


def test_after_a_region_an_interrupt_waits_again(gate):
    gate.open()
    gate.region(int)
    with pytest.raises(ZeroDivisionError):
        gate.region(divmod, 1, 0)
    assert notes_interrupt() == "went on"


def test_a_region_inside_a_region_leaves_the_outer_one_open(gate):
    gate.open()

    def outer():
        gate.region(int)
        return notes_interrupt()

    assert gate.region(outer) == "interrupted"


def test_with_no_cell_an_interrupt_does_nothing_and_is_not_kept(gate):
    assert notes_interrupt() == "went on"
    gate.open()
    assert is_left_alone(gate)
    gate.close()
    assert notes_interrupt() == "went on"
    gate.open()
    assert is_left_alone(gate)


def test_an_interrupt_left_by_the_last_cell_does_not_hit_the_next(gate):
    gate.open()
    assert notes_interrupt() == "went on"
    gate.close()
    gate.open()
    assert is_left_alone(gate)


def waits_in_loop(gate, cancels):
    """A region whose frames are all the product's own: it waits in an event loop."""

    def waiting():
        gate.waits_in(lambda: cancels.append(True))
        try:
            return notes_interrupt()
        finally:
            gate.waits_in(None)

    return waiting


def test_a_region_that_waits_in_a_loop_is_cancelled(gate):
    """The process's own entry point is called `__main__`, too: here pytest's, on a worker the worker's."""
    cancels = []
    gate.open()
    assert gate.region(waits_in_loop(gate, cancels)) == "went on"
    assert cancels == [True]
    assert gate.cancelled
    gate.open()
    assert not gate.cancelled


def test_a_second_interrupt_of_a_loop_that_was_cancelled_already_raises(gate):
    """Its task may have swallowed the cancellation."""
    cancels = []

    def waiting():
        gate.waits_in(lambda: cancels.append(True))
        return notes_interrupt(), notes_interrupt()

    gate.open()
    assert gate.region(waiting) == ("went on", "interrupted")
    assert cancels == [True]


def test_notebook_code_that_runs_in_the_loop_is_interrupted_where_it_is(gate):
    cancels = []
    namespace = {"__name__": "__main__", "notes_interrupt": notes_interrupt}
    exec("def busy():\n    return notes_interrupt()\n", namespace)

    def waiting():
        gate.waits_in(lambda: cancels.append(True))
        return namespace["busy"]()

    gate.open()
    assert gate.region(waiting) == "interrupted"
    assert cancels == []


@pytest.fixture
def half(tmp_path, monkeypatch):
    """A module whose import is interrupted in the middle."""
    (tmp_path / "interrupted_module.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(1000): pass\nwhole = True\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("interrupted_module", None)


def import_it():
    import interrupted_module

    return interrupted_module.whole


def test_an_import_of_the_inputs_is_finished_before_the_interrupt(gate, half):
    gate.open()
    assert gate.loading(import_it)
    with pytest.raises(KeyboardInterrupt):
        gate.region(int)


def test_an_import_of_the_body_is_interrupted_as_in_a_kernel(gate, half):
    gate.open()
    with pytest.raises(KeyboardInterrupt):
        gate.region(import_it)


def test_loading_is_interrupted_outside_of_imports(gate):
    gate.open()
    assert gate.loading(notes_interrupt) == "interrupted"

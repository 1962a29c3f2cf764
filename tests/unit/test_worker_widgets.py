"""Which widgets of a worker may be seen alive (`worker.cell.widgets`)."""

import pytest

from wool_jupyter.worker.cell.widgets import VIEW, Widgets

CONTROLS = "@jupyter-widgets/controls"


@pytest.fixture
def carried():
    return []


@pytest.fixture
def widgets(carried):
    return Widgets(lambda kind, comm, content: carried.append((kind, comm, content["data"].get("state"))))


def made(widgets, comm, name, module=CONTROLS, **state):
    state = {"_model_name": name, "_model_module": module, **state}
    widgets.said("comm_open", comm, {"data": {"state": state}})


def changed(widgets, comm, **state):
    widgets.said("comm_msg", comm, {"data": {"method": "update", "state": state}})


def deaf(widgets, comm):
    return widgets.deaf({"text/plain": "", VIEW: {"model_id": comm}})


def test_what_only_shows_is_alive(widgets):
    made(widgets, "layout", "LayoutModel", module="@jupyter-widgets/base")
    made(widgets, "bar", "FloatProgressModel", layout="IPY_MODEL_layout")
    made(widgets, "box", "HBoxModel", children=["IPY_MODEL_bar"], layout="IPY_MODEL_layout")
    assert deaf(widgets, "box") == ""


def test_what_would_have_to_hear_is_named(widgets):
    made(widgets, "slider", "IntSliderModel")
    made(widgets, "box", "VBoxModel", children=["IPY_MODEL_slider"])
    assert deaf(widgets, "slider") == "IntSlider"
    assert deaf(widgets, "box") == "IntSlider"


def test_children_are_those_of_now(widgets):
    made(widgets, "slider", "IntSliderModel")
    made(widgets, "box", "VBoxModel", children=["IPY_MODEL_slider"])
    changed(widgets, "box", children=[])
    assert deaf(widgets, "box") == ""
    changed(widgets, "box", children=["IPY_MODEL_slider"])
    assert deaf(widgets, "box") == "IntSlider"


def test_a_widget_of_somebody_else_may_have_to_hear(widgets):
    made(widgets, "map", "HBoxModel", module="somebody")
    made(widgets, "chart", "AnyModel", module="anywidget", _anywidget_id="charts.Chart")
    assert deaf(widgets, "map") == "HBox"
    assert deaf(widgets, "chart") == "Chart"


def test_what_is_no_widget_of_this_worker_is_let_through(widgets):
    assert widgets.deaf({"text/plain": ""}) == ""
    assert deaf(widgets, "of the kernel") == ""


def test_boxes_that_hold_each_other_end(widgets):
    made(widgets, "one", "HBoxModel", children=["IPY_MODEL_two"])
    made(widgets, "two", "HBoxModel", children=["IPY_MODEL_one"])
    assert deaf(widgets, "one") == ""


def test_an_output_widget_that_nobody_sees_takes_nothing(widgets, carried):
    """`interact` shows a slider above one: what it prints would vanish."""
    made(widgets, "slider", "IntSliderModel")
    made(widgets, "out", "OutputModel", module="@jupyter-widgets/output", msg_id="")
    made(widgets, "box", "VBoxModel", children=["IPY_MODEL_slider", "IPY_MODEL_out"])
    assert deaf(widgets, "box") == "IntSlider"
    changed(widgets, "out", msg_id="of the cell")
    assert carried[-1] == ("comm_msg", "out", {})
    assert widgets.keeps_from_clearing()
    changed(widgets, "out", msg_id="")
    assert not widgets.keeps_from_clearing()


def test_an_output_widget_that_is_seen_takes_what_it_is_given(widgets, carried):
    made(widgets, "out", "OutputModel", module="@jupyter-widgets/output", msg_id="")
    assert deaf(widgets, "out") == ""
    changed(widgets, "out", msg_id="of the cell")
    assert carried[-1] == ("comm_msg", "out", {"msg_id": "of the cell"})
    assert not widgets.keeps_from_clearing()

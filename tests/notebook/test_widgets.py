"""Widgets that are made on a worker: in the browser, under their cell, and hearing nobody."""

import pytest

VIEW = "application/vnd.jupyter.widget-view+json"


def states(result):
    """By comm: what the browser knows in the end."""
    found = {}
    for message in result.comms:
        found.setdefault(message.comm, {}).update(message.data.get("state", {}))
    return found


def test_a_progress_bar_lives_under_its_cell(kernel):
    result = kernel.wool(
        """
        import ipywidgets
        bar = ipywidgets.IntProgress(max=3)
        display(bar)
        for bar.value in (1, 2, 3): pass
        del bar
        """
    )
    shown = next(output for output in result.outputs if VIEW in output.data)
    assert states(result)[shown.data[VIEW]["model_id"]]["value"] == 3
    assert result.stderr == ""


def test_tqdm_for_notebooks_counts_to_its_end(kernel):
    result = kernel.wool("from tqdm.auto import tqdm\nfor i in tqdm(range(5), desc='steps'): pass")
    view = next(output.data[VIEW] for output in result.outputs if VIEW in output.data)
    children = [child.removeprefix("IPY_MODEL_") for child in states(result)[view["model_id"]]["children"]]
    bar = next(states(result)[child] for child in children if "max" in states(result)[child])
    assert (bar["value"], bar["max"], bar["bar_style"]) == (5, 5, "success")


def test_a_page_that_is_loaded_again_hears_how_the_widget_is_now(kernel):
    """It asks every comm of the kernel, and shows no widget at all before each has answered."""
    result = kernel.wool(
        "import ipywidgets\nlabel = ipywidgets.Label('one'); display(label); label.value = 'two'; del label"
    )
    comm = next(output.data[VIEW]["model_id"] for output in result.outputs if VIEW in output.data)
    asked = {"comm_id": comm, "data": {"method": "request_state"}}
    kernel.client.shell_channel.send(kernel.client.session.msg("comm_msg", asked))
    kernel.ok("pass")
    answers = [m["content"] for m in kernel.strays if m["msg_type"] == "comm_msg" and m["content"]["comm_id"] == comm]
    assert [answer["data"]["state"]["value"] for answer in answers] == ["two"]


@pytest.mark.parametrize(
    "cell",
    [
        "display(ipywidgets.IntSlider(value=2))",
        "display(ipywidgets.VBox([ipywidgets.Label('l'), ipywidgets.Button()]))",
        "ipywidgets.Text('typed')",
    ],
)
def test_a_widget_that_would_have_to_hear_is_text_with_one_line(kernel, cell):
    result = kernel.wool(f"import ipywidgets\n{cell}")
    assert [VIEW in output.data for output in result.outputs if output.data] == [False]
    assert result.stderr.count("made on a worker is shown as text") == 1
    assert "plain cell" in result.stderr


def test_what_interact_prints_is_seen(kernel):
    result = kernel.wool(
        "import ipywidgets\nprint('before')\nipywidgets.interact(lambda n: print('n is', n), n=(0, 10));"
    )
    assert result.stdout == "before\nn is 5\n"
    assert "clear" not in result.kinds


def test_an_output_widget_takes_what_is_printed_inside(kernel):
    result = kernel.wool(
        "import ipywidgets\nout = ipywidgets.Output(); display(out)\nwith out: print('inside')\ndel out"
    )
    messages = [m.data["state"]["msg_id"] for m in result.comms if "msg_id" in m.data.get("state", {})]
    assert messages[-1] == ""
    assert messages[-2] == next(m for m in messages if m)


def test_an_error_that_a_cell_shows_is_an_error_of_the_notebook(kernel):
    result = kernel.wool("try: 1 / 0\nexcept ZeroDivisionError: get_ipython().showtraceback()\nprint('after')")
    assert result.kinds == ["error", "stdout"]
    assert result.error.ename == "ZeroDivisionError"
    assert kernel.value("__import__('sys').last_type.__name__") == "ZeroDivisionError"

"""Tensors and modules of torch in cells: what a cell does to them is done to the notebook's own."""

import pytest

pytest.importorskip(
    "torch", reason="torch is as large as all else that the tests need: `.venv/bin/pip install torch` adds these"
)
pytestmark = pytest.mark.timeout(300)

SET_UP = """
import torch
from torch import nn
torch.manual_seed(0)
x, y = torch.randn(64, 8), torch.randn(64, 1)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.BatchNorm1d(32), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
weight, before, losses = model[0].weight, model[0].weight.detach().clone(), []
"""
STEP = """
optimizer.zero_grad()
loss = nn.functional.mse_loss(model(x), y)
loss.backward()
optimizer.step()
scheduler.step()
losses.append(loss.item())
"""


@pytest.fixture
def notebook(kernel):
    kernel.ok(SET_UP, timeout=120)
    return kernel


def test_a_model_that_is_trained_in_turns_learns_as_in_plain_cells(notebook):
    for _ in range(3):
        notebook.ok(STEP)
    plain = notebook.value("losses")
    notebook.ok(SET_UP)
    notebook.wool(STEP, timeout=120)
    assert notebook.value("model[0].weight is weight and optimizer.param_groups[0]['params'][0] is weight")
    assert notebook.value("(bool((weight != before).any()), weight.grad is not None)") == (True, True)
    notebook.ok(STEP)
    notebook.wool(STEP)
    assert notebook.value("losses") == pytest.approx(plain, rel=1e-5)


def test_a_backward_pass_and_the_step_after_it_may_run_in_different_places(notebook):
    notebook.wool("nn.functional.mse_loss(model(x), y).backward()", timeout=120)
    notebook.ok("optimizer.step()")
    assert notebook.value("bool((weight != before).any())")


def test_what_is_written_into_a_tensor_is_seen_by_all_who_look_at_its_memory(notebook):
    notebook.ok("t = torch.zeros(600_000); part, alias, array = t[2:4], t, t.numpy()")
    notebook.wool("t[2] = 5; part[1] = 6", timeout=120)
    assert notebook.value("(t[:5].tolist(), part.tolist(), array[:5].tolist(), alias is t)") == (
        [0, 0, 5, 6, 0],
        [5, 6],
        [0, 0, 5, 6, 0],
        True,
    )


def test_a_tensor_that_becomes_another_stays_itself(notebook):
    notebook.ok("t = torch.zeros(3); alias = t")
    notebook.wool("t.data = torch.ones(2, 2, dtype=torch.float64); t.requires_grad_(); t.note = 'new'", timeout=120)
    assert notebook.value("(alias is t, t.tolist(), t.requires_grad, t.note)") == (True, [[1, 1], [1, 1]], True, "new")


def test_the_memory_of_a_large_one_crosses_once(notebook):
    notebook.ok("big = torch.ones(4_000_000)\nfrom wool_jupyter.notebook.runtime import runtime")
    for _ in range(2):
        assert notebook.wool("float(big.sum())", timeout=120).value == "4000000.0"
    assert notebook.value(
        "[f.stat().st_size for p in runtime().places for f in __import__('pathlib').Path(p, 'data').iterdir()]"
    ) == [16_000_000]
    notebook.ok("import wool_jupyter\ntotal = wool_jupyter.pool().submit(torch.sum, big).result()", timeout=120)
    assert notebook.value("total.item()") == 4_000_000


def test_a_result_comes_without_its_graph_and_torch_says_so(notebook):
    notebook.wool("loss = nn.functional.mse_loss(model(x), y)", timeout=120)
    assert "does not have a grad_fn" in notebook.run("loss.backward()").error.evalue


def test_random_numbers_and_options_are_those_of_the_notebook(notebook):
    notebook.ok("torch.manual_seed(1); numbers = [float(torch.rand(1)) for _ in range(3)]; torch.manual_seed(1)")
    notebook.ok("drawn = [float(torch.rand(1))]")
    notebook.wool("drawn.append(float(torch.rand(1)))", timeout=120)
    notebook.ok("drawn.append(float(torch.rand(1)))")
    assert notebook.value("drawn == numbers")
    notebook.ok("torch.set_default_dtype(torch.float64); torch.set_grad_enabled(False)")
    notebook.wool("kind, grads = torch.ones(1).dtype, torch.is_grad_enabled(); torch.set_grad_enabled(True)")
    notebook.ok("torch.set_default_dtype(torch.float32)")
    assert notebook.value("(str(kind), grads, torch.is_grad_enabled())") == ("torch.float64", False, True)
    assert notebook.wool("str(torch.ones(1).dtype)").value == "'torch.float32'"


def test_calls_side_by_side_draw_different_numbers(notebook):
    notebook.ok("import wool_jupyter\ndrawn = list(wool_jupyter.pool().map(torch.rand, [3] * 8))", timeout=120)
    assert notebook.value("len({tuple(each.tolist()) for each in drawn})") == 8

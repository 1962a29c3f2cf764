"""Tensors of torch leave a pickle as they lie in memory, and arrive sharing what they shared (`wire.tensors`)."""

import io
import pickle
import warnings

import pytest

from wool_jupyter.wire import buffers, pickling

torch = pytest.importorskip(
    "torch", reason="torch is as large as all else that the tests need: `.venv/bin/pip install torch` adds these"
)

LARGE = 1 << 20


def trip(value):
    file, out_of_band = io.BytesIO(), buffers.OutOfBand()
    pickling.NotebookPickler(file, out_of_band).dump(value)
    return pickle.loads(file.getvalue(), buffers=[bytearray(each) for each in out_of_band.buffers]), file, out_of_band


def large(dtype=torch.float32):
    return torch.arange(LARGE).to(dtype)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(large, id="as it is"),
        pytest.param(lambda: large(torch.bfloat16), id="bfloat16"),
        pytest.param(lambda: large(torch.bool), id="bool"),
        pytest.param(lambda: torch.complex(large(), large()), id="complex"),
        pytest.param(lambda: large().reshape(1024, 1024).T, id="transposed"),
        pytest.param(lambda: large().reshape(1024, 1024)[::2, 3:90], id="with gaps"),
        pytest.param(lambda: large().requires_grad_(), id="with a gradient"),
        pytest.param(lambda: torch.nn.Parameter(large()), id="parameter"),
        pytest.param(lambda: torch.nn.Parameter(large(), requires_grad=False), id="frozen parameter"),
        pytest.param(lambda: torch.complex(large(), large()).conj(), id="conjugated"),
        pytest.param(
            lambda: torch.sparse_coo_tensor(large(torch.int64)[None], large(), check_invariants=False), id="sparse"
        ),
        pytest.param(lambda: torch.empty(0, 3), id="empty"),
        pytest.param(lambda: torch.tensor(3), id="scalar"),
    ],
)
def test_a_tensor_arrives_as_it_was_and_its_memory_is_not_copied(make):
    sent = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        arrived, file, out_of_band = trip(sent)
    assert (type(arrived), arrived.dtype, arrived.shape) == (type(sent), sent.dtype, sent.shape)
    assert (arrived.layout, arrived.requires_grad) == (sent.layout, sent.requires_grad)
    if sent.layout is torch.strided:
        assert arrived.stride() == sent.stride()
    assert torch.equal(arrived.to_dense(), sent.to_dense())
    assert file.tell() < 10_000
    assert bool(out_of_band.buffers) == (sent.numel() > 1)


def test_what_shares_memory_shares_it_there():
    base = large()
    (arrived, view, same), _, out_of_band = trip((base, base[5:9].reshape(2, 2), base))
    assert len(out_of_band.buffers) == 1
    assert same is arrived
    view[0, 0] = -1
    assert arrived[5] == -1


def test_gradients_and_attributes_come_along():
    sent = torch.ones(3, requires_grad=True)
    (sent * 2).sum().backward()
    sent.note = "kept"
    arrived, _, _ = trip(sent)
    assert (arrived.grad.tolist(), arrived.note) == ([2, 2, 2], "kept")


def test_what_was_computed_arrives_without_its_graph_and_says_so_when_it_is_needed():
    arrived, _, _ = trip((torch.ones(3, requires_grad=True) * 2).sum())
    assert arrived.item() == 6
    with pytest.raises(RuntimeError, match="does not have a grad_fn"):
        arrived.backward()


def test_a_module_arrives_whole():
    layers = [torch.nn.Linear(64, 2048), torch.nn.BatchNorm1d(2048), torch.nn.Linear(2048, 64)]
    model = torch.nn.Sequential(*layers)
    model[2].weight = torch.nn.Parameter(model[0].weight.T)  # it shares what the first one has
    (arrived, optimizer), _, out_of_band = trip((model, torch.optim.SGD(model.parameters(), lr=0.1)))
    assert arrived.state_dict().keys() == model.state_dict().keys()
    assert all(torch.equal(arrived.state_dict()[name], value) for name, value in model.state_dict().items())
    assert [
        each is other for each, other in zip(optimizer.param_groups[0]["params"], arrived.parameters(), strict=True)
    ]
    assert arrived[2].weight.data_ptr() == arrived[0].weight.data_ptr()
    assert len(out_of_band.buffers) == 1


class Own(torch.Tensor):
    pass


def test_a_class_of_one_s_own_is_torch_s_business_but_for_its_memory():
    own, _, out_of_band = trip(large().as_subclass(Own))
    assert (type(own), len(out_of_band.buffers)) == (Own, 1)

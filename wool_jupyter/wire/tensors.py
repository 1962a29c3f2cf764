"""Tensors of torch, whose own pickling copies their memory into the stream and forgets who shares it (torch 2.13).

    tensor ─▶ its storage ─▶ an array on the same memory, which travels, and is brought up to date, as any array does

What torch itself makes of a tensor (a sparse one, one of another device or class) ends in storages, too.
"""

import sys
from typing import Any, NamedTuple

Reduced = tuple[Any, ...]

_CLASSES = frozenset({("torch", "Tensor"), ("torch.nn.parameter", "Parameter")})
_STORAGES = frozenset({("torch.storage", "UntypedStorage"), ("torch.storage", "TypedStorage")})


class Content(NamedTuple):
    """What a tensor is, beside the memory that it looks at. No graph: a result of a computation arrives detached."""

    storage: Any
    dtype: Any
    offset: int  # in elements, as all of torch's
    size: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool
    grad: Any
    attributes: dict[str, Any]


def is_tensor(t: type) -> bool:
    return (t.__module__, t.__name__) in _CLASSES


def is_storage(t: type) -> bool:
    return (t.__module__, t.__name__) in _STORAGES


def reduced(tensor: Any) -> Reduced | None:
    """None for what torch has to do itself."""
    content = content_of(tensor)
    if content is None:
        return None
    kind = type(tensor)
    state = None if content.grad is None and not content.attributes else (content.grad, content.attributes)
    return made, (kind, *content[:6]), state, None, None, set_state


def content_of(tensor: Any) -> Content | None:
    """As `reduced`."""
    torch = sys.modules["torch"]
    is_plain = tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
    if not is_plain or tensor.is_conj() or tensor.is_neg():
        return None
    return Content(
        tensor.untyped_storage(),
        tensor.dtype,
        tensor.storage_offset(),
        tuple(tensor.size()),
        tensor.stride(),
        tensor.requires_grad and tensor.is_leaf,
        tensor.grad if tensor.is_leaf else None,
        dict(vars(tensor)),
    )


def made(
    kind: Any, storage: Any, dtype: Any, offset: int, size: tuple[int, ...], strides: tuple[int, ...], needs_grad: bool
) -> Any:
    import torch

    tensor = torch.empty(0, dtype=dtype).set_(storage, offset, size, strides)
    if kind is torch.Tensor:
        return tensor.requires_grad_(needs_grad) if needs_grad else tensor
    return kind(tensor, needs_grad)


def set_state(tensor: Any, state: tuple[Any, dict[str, Any]]) -> None:
    tensor.grad, attributes = state
    vars(tensor).clear()
    vars(tensor).update(attributes)


def pour(tensor: Any, new: Content) -> None:
    """Into a tensor that stays itself. Its memory has been brought up to date by whoever has that array."""
    if content_of(tensor) is None or _place(tensor) != (new.storage.data_ptr(), *new[1:5]):
        tensor.data = made(type(tensor), *new[:5], False).data
    if tensor.is_leaf:
        tensor.requires_grad_(new.requires_grad)
        tensor.grad = new.grad
    vars(tensor).clear()
    vars(tensor).update(new.attributes)


def _place(tensor: Any) -> tuple[Any, ...]:
    storage = tensor.untyped_storage()
    return storage.data_ptr(), tensor.dtype, tensor.storage_offset(), tuple(tensor.size()), tensor.stride()


def reduced_storage(storage: Any) -> Reduced | None:
    """As `reduced`."""
    if type(storage).__name__ == "TypedStorage":
        return typed, (storage._untyped_storage, storage.dtype)
    if storage.device.type != "cpu":
        return None
    torch = sys.modules["torch"]
    memory = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,))
    return storage_on, (memory.numpy(),)


def storage_on(array: Any) -> Any:
    """The array's memory is the storage's."""
    import torch

    return torch.from_numpy(array).untyped_storage()


def typed(storage: Any, dtype: Any) -> Any:
    import torch

    return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)

"""How torch draws numbers, and what it does by default."""

import sys
from typing import Any

from wool_jupyter.wire.aspects.aspect import Aspect, Generator


def _read_random() -> bytes:
    state: bytes = sys.modules["torch"].get_rng_state().numpy().tobytes()
    return state


def _write_random(_before: Any, after: bytes) -> None:
    import torch

    torch.set_rng_state(torch.frombuffer(bytearray(after), dtype=torch.uint8))


def _seed() -> None:
    sys.modules["torch"].seed()


def _read() -> dict[str, Any]:
    torch = sys.modules["torch"]
    return {
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "gradients": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


def _values() -> tuple[Any, ...]:
    return tuple(_read().values())


def _write(_before: Any, after: dict[str, Any]) -> None:
    import torch

    torch.set_default_dtype(after["dtype"])
    if torch.get_default_device() != after["device"]:
        torch.set_default_device(after["device"])
    torch.set_grad_enabled(after["gradients"])
    torch.use_deterministic_algorithms(after["deterministic"])


ASPECTS = {
    "torch.random": Generator(_read_random, _write_random, "torch", seed=_seed),
    "torch": Aspect(_read, _write, "torch", key=_values, glance=_values),
}

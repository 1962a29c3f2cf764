"""How numpy draws numbers, treats errors and prints."""

import sys
from typing import Any

from wool_jupyter.wire.aspects.aspect import Aspect, Generator


def _read_random() -> tuple[Any, ...]:
    import numpy as np

    state: Any = np.random.get_state()
    return state[0], state[1].tobytes(), *state[2:]


def _write_random(_before: Any, after: tuple[Any, ...]) -> None:
    import numpy as np

    name, keys, *rest = after
    np.random.set_state((name, np.frombuffer(keys, "uint32"), *rest))


def _seed() -> None:
    sys.modules["numpy.random"].seed()


def _read_errors() -> dict[str, Any]:
    import numpy as np

    return dict(np.geterr())


def _write_errors(_before: Any, after: dict[str, Any]) -> None:
    import numpy as np

    np.seterr(**after)


def _read_print() -> dict[str, Any]:
    import numpy as np

    return {k: v for k, v in np.get_printoptions().items() if k not in ("override_repr", "formatter") or v is not None}


def _write_print(_before: Any, after: dict[str, Any]) -> None:
    import numpy as np

    np.set_printoptions(**{k: v for k, v in after.items() if k != "override_repr"})


ASPECTS = {
    "numpy.random": Generator(_read_random, _write_random, "numpy.random", imports=True, seed=_seed),
    "numpy errors": Aspect(_read_errors, _write_errors, "numpy", imports=True, of_context=True),
    "numpy print options": Aspect(_read_print, _write_print, "numpy", of_context=True),
}

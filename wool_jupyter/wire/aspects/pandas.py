"""pandas' options."""

import sys
from typing import Any

from wool_jupyter.wire.aspects.aspect import Aspect, flat
from wool_jupyter.wire.aspects.unchanged import Unchanged


def _config() -> Any:
    """The public part has no list of options and defaults (3.1)."""
    return sys.modules["pandas"]._config.config


def _read() -> dict[str, Any]:
    import pandas as pd

    config = _config()
    values = {key: pd.get_option(key) for key in config._registered_options if key not in config._deprecated_options}
    return {key: value for key, value in values.items() if value != config._registered_options[key].defval}


def _key() -> bytes | None:
    return flat(_config()._global_config)


@Unchanged
def _glance() -> Any:
    return _config()._global_config


def _write(before: Any, after: dict[str, Any]) -> None:
    import pandas as pd

    for key in (before or {}).keys() - after.keys():
        pd.reset_option(key)
    for key, value in after.items():
        pd.set_option(key, value)


ASPECTS = {"pandas options": Aspect(_read, _write, "pandas", imports=True, key=_key, glance=_glance)}

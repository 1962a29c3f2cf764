"""What both ends of a stream must agree on before it carries frames."""

import functools

SERVICE = "wool.Worker"
METHOD = "session"

PROTOCOL = "3"  # changes with what frames, cells and their pickles mean: two ends of different ones do not talk
PROTOCOL_KEY, VERSION_KEY = "wool-protocol", "wool-version"  # of a call's metadata


@functools.cache
def package_version() -> str:
    from importlib.metadata import version  # 10 ms that a worker saves

    return version("wool_jupyter")

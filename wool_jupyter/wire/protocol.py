"""What both ends of a stream must agree on before it carries frames."""

SERVICE = "wool.Worker"
METHOD = "session"

PROTOCOL = "3"  # changes with what frames, cells and their pickles mean: two ends of different ones do not talk
PROTOCOL_KEY, VERSION_KEY = "wool-protocol", "wool-version"  # of a call's metadata


def package_version() -> str:
    """As in pyproject.toml: to look it up takes 10 ms of a worker's first call."""
    return "0.1.0"

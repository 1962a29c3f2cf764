"""What both ends of a stream must agree on before it carries frames."""

SERVICE = "wool.Worker"
METHOD = "session"

PROTOCOL = "3"  # changes with what frames, cells and their pickles mean: two ends of different ones do not talk
PROTOCOL_KEY, VERSION_KEY = "wool-protocol", "wool-version"  # of a call's metadata

VERSION = "0.1.0"  # the package's, as in pyproject.toml: to look it up takes 10 ms of a worker's first call


def package_version() -> str:
    return VERSION

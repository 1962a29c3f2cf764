"""Which versions of this package can work together: a worker unpickles what names this package's insides."""

import re

_NUMBERS = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


def suits(worker: str, client: str) -> bool:
    """The same major version (before 1.0: the same minor one), and the worker no older. False for what is no version."""
    of_worker, of_client = _NUMBERS.match(worker), _NUMBERS.match(client)
    if of_worker is None or of_client is None:
        return False
    ours, theirs = (tuple(int(number or 0) for number in each.groups()) for each in (of_worker, of_client))
    same = 1 if ours[0] else 2
    return ours[:same] == theirs[:same] and ours >= theirs

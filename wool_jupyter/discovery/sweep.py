"""Removes what lies below a directory, by descriptors: what a link leads to stays."""

import errno
import warnings
from dataclasses import dataclass

from wool_jupyter.discovery import files

_ATTEMPTS = 5  # a process that is dying may still make a file between the listing and the removal


@dataclass(slots=True)
class _Level:
    fd: int
    name: str  # within the level above; the first level's is the label
    left: list[str]
    attempts: int = 1
    complete: bool = True


def sweep_below(fd: int, label: str) -> bool:
    """Everything below the directory; it holds as many descriptors as the tree is deep. False if something stays.

    Of each entry that can't be entered or removed there is one ResourceWarning, with its path below `label`. What vanishes by
    itself is fine.
    """
    levels = [_Level(fd, label, files.listed(fd))]
    try:
        while True:
            level = levels[-1]
            if level.left:
                _take(level.left.pop(), levels)
            elif len(levels) == 1:
                return level.complete
            elif _ascend(levels):
                files.close(levels.pop().fd)
    finally:
        for level in levels[1:]:
            files.close(level.fd)


def _take(name: str, levels: list[_Level]) -> None:
    """Unlinks it, or goes down into it."""
    above = levels[-1]
    try:
        if not files.is_directory(name, at=above.fd):
            files.unlink(name, at=above.fd)
            return
        inner = files.open_directory(name, at=above.fd)
    except FileNotFoundError:
        return
    except OSError as error:
        _stays(name, levels, error)
        return
    levels.append(_Level(inner, name, []))
    try:
        levels[-1].left = files.listed(inner)
    except OSError as error:
        levels[-1].complete = False
        _stays(name, levels[:-1], error)


def _ascend(levels: list[_Level]) -> bool:
    """Removes the last level, which is empty by now. False if it is not, and was listed again."""
    level, above = levels[-1], levels[-2]
    if not level.complete:  # what it holds was told
        above.complete = False
        return True
    try:
        files.remove_directory(level.name, at=above.fd)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in {errno.ENOTEMPTY, errno.EEXIST} and level.attempts < _ATTEMPTS:
            return not _list_again(levels)
        _stays(level.name, levels[:-1], error)
    return True


def _list_again(levels: list[_Level]) -> bool:
    level = levels[-1]
    level.attempts += 1
    try:
        level.left = files.listed(level.fd)
    except OSError as error:
        _stays(level.name, levels[:-1], error)
        return False
    return True


def _stays(name: str, levels: list[_Level], error: OSError) -> None:
    levels[-1].complete = False
    path = "/".join([*(level.name for level in levels), name])
    warnings.warn(f"{path} can't be removed: {error.strerror or error}", ResourceWarning, stacklevel=2)

"""What the constructors of discovery refuse, each with ValueError."""

from pathlib import Path
from typing import TypeVar

Interval = TypeVar("Interval", float, float | None)


def root(path: Path | None) -> Path | None:
    """Absolute: it is looked at later, too, and a process may change its directory."""
    if path is not None and not path.is_absolute():
        raise ValueError(f"root is an absolute path, not {str(path)!r}")
    return path


def timeout(lock_timeout: float | None) -> float | None:
    if lock_timeout is not None and not lock_timeout >= 0:
        raise ValueError(f"lock_timeout is at least 0 s, or None to wait without an end, not {lock_timeout!r}")
    return lock_timeout


def interval(name: str, interval_s: Interval) -> Interval:
    if interval_s is not None and not interval_s > 0:
        raise ValueError(f"{name} is more than 0 s, not {interval_s!r}")
    return interval_s


def within(name: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise ValueError(f"{name} is between {least} and {most}, not {value!r}")
    return value

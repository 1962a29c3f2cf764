"""Sizes and spans of time in words, as the panel has them too."""

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_SPANS = ((86400, "d"), (3600, "h"), (60, "min"))


def size(nbytes: float) -> str:
    """Three decimal digits: `184 MB`."""
    unit = 0
    while float(f"{nbytes:.3g}") >= 1000 and unit < len(_UNITS) - 1:
        nbytes, unit = nbytes / 1000, unit + 1
    return f"{nbytes:.3g} {_UNITS[unit]}"


def span(seconds: float) -> str:
    """One unit is enough to look at: `51 s`, `9 min`."""
    for length, unit in _SPANS:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"

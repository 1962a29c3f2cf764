"""Rows of measurements, as text."""

from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass
class Row:
    """Durations in seconds, one for each run; `wool[i]` and `plain[i]` were measured in the same kernel."""

    name: str
    wool: list[float]
    plain: list[float] | None = None
    aim: str = ""

    @property
    def ratio(self) -> float | None:
        """Median of the runs' own ratios: what slows a run down slows both of its sides."""
        return None if self.plain is None else median(w / p for w, p in zip(self.wool, self.plain, strict=True))

    def as_json(self) -> dict[str, Any]:
        return {"work": self.name, "wool": self.wool, "plain": self.plain, "ratio": self.ratio, "aim": self.aim}

    def cells(self) -> list[str]:
        plain = "" if self.plain is None else duration(median(self.plain))
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        return [self.name, plain, duration(median(self.wool)), ratio, self.aim]


def duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def as_text(rows: list[Row]) -> str:
    return lined_up([["", "plain", "%%wool", "ratio", "aim"], *(row.cells() for row in rows)])


def lined_up(lines: list[list[str]]) -> str:
    """The first and the last column to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            [
                line[0].ljust(widths[0]),
                *(text.rjust(width) for text, width in zip(line[1:-1], widths[1:-1], strict=True)),
                line[-1],
            ]
        ).rstrip()
        for line in lines
    )

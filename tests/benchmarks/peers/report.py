"""A comparison as a table and as JSON."""

from typing import Any

from tests.benchmarks.peers.compare import PACKAGES, Comparison
from tests.benchmarks.peers.works import MB, Aim, Row
from tests.benchmarks.table import duration, lined_up


def as_text(comparison: Comparison) -> str:
    """Peers that can't do a work have the reason in its place."""
    versions = [known or "" for known in comparison.versions.values()]
    lines = [["", *PACKAGES, "aim: reached"], ["", *versions, ""]]
    for row in comparison.rows:
        figures = [_shown(comparison.median(row, peer), row.unit) for peer in PACKAGES]
        aims = "; ".join(_aim(aim, row, comparison.against(row, aim)) for aim in row.aims)
        lines.append([row.name, *figures, aims])
    return f"{lined_up(lines)}\nMedians over the rounds ({len(comparison.rounds)}), in each of which every library had its turn."


def _shown(figure: float | str, unit: str) -> str:
    if isinstance(figure, str):
        return figure
    return f"{figure / MB:.0f} MB" if unit == "bytes" else duration(figure)


def _aim(aim: Aim, row: Row, reached: float | None) -> str:
    if reached is None:
        return f"at most {aim.at_most:g} of {aim.of}: nothing to compare"
    missed = "" if reached <= aim.at_most else " (missed)"
    if aim.of is None:
        return f"at most {_shown(aim.at_most, row.unit)}: {_shown(reached, row.unit)}{missed}"
    return f"at most {aim.at_most:g} of {aim.of}: {reached:.2f}{missed}"


def as_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "rounds": len(comparison.rounds),
        "versions": comparison.versions,
        "works": [
            {
                "work": row.name,
                "unit": row.unit,
                "figures": {peer: comparison.figures(row, peer) for peer in PACKAGES},
                "medians": {peer: comparison.median(row, peer) for peer in PACKAGES},
                "aims": [
                    {"of": aim.of, "at_most": aim.at_most, "reached": comparison.against(row, aim)} for aim in row.aims
                ],
            }
            for row in comparison.rows
        ],
    }

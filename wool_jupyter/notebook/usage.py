"""What `%wool` and `%%wool` understand, in the words of their help."""

import re
import textwrap

_WIDTH = 98  # a notebook beside an open side bar shows no more

ASKS = frozenset({"-h", "--help"})

COMMANDS = {  # command -> what follows it, what it does
    "status": ("", "what each worker runs and uses; so does `%wool` alone"),
    "start": ("[-n N]", "start the pool now, with N workers"),
    "scale": ("N", "make the pool larger or smaller; busy workers end when their cells have"),
    "stop": ("", "end the workers; the next %%wool starts new ones"),
    "restart": ("[WORKER] [-n N]", "end that worker, whatever it does, and have a new one; without it, all"),
    "interrupt": ("[WORKER]", "as ■ does, for what that worker runs, or all"),
    "logs": ("[-n LINES]", "what the pool's processes wrote outside of cells, and crashes"),
    "dashboard": ("", "the pool, live, with buttons"),
    "doctor": ("", "what belongs into a bug report"),
    "jobs": ("", "the cells that run in the background, or did"),
    "wait": ("[JOB ...]", "wait for all jobs, or some"),
    "cancel": ("JOB ...", "end them, as ■ does; once more, and their workers are ended"),
    "output": ("JOB ... | [CELL] [-n LINES]", "what a job has shown, or what was too much of a cell's output"),
    "help": ("", "this text"),
}

OPTIONS = {  # of a cell: option -> what follows it, what it does
    "-i": (
        "NAMES",
        "the variables that it gets, separated by commas, instead of those that it reads; new=old renames one",
    ),
    "-o": ("NAMES", "those that come back, whatever their size, instead of all that it assigns; new=old renames one"),
    "--bg": ("", "return at once with a job: other cells run meanwhile"),
}

_NEEDED = dict.fromkeys(("-i", "-o"), "names of variables")  # after an option


def of_a_cell() -> str:
    return "\n".join(
        [
            "%%wool [-i NAMES] [-o NAMES] [--bg]",
            "    Run this cell in a worker process: its output appears here, and its variables come back.",
            "",
            *_table(OPTIONS),
        ]
    )


def of_all() -> str:
    return "\n".join(
        [
            of_a_cell(),
            "",
            "%wool EXPRESSION",
            "    Run a line on a worker: best = %wool search(grid)",
            "",
            "%wool COMMAND",
            *_table(COMMANDS),
            "",
            "A WORKER is meant by the beginning of its name.",
            "`%%wool?` and `%wool?` have examples, `%config Wool` has options.",
        ]
    )


def of_a_command(word: str) -> str:
    what, does = COMMANDS[word]
    return f"{f'%wool {word} {what}'.rstrip()}\n    {does[0].upper()}{does[1:]}."


def in_words(error: Exception) -> str:
    """What argparse refuses, without its words for programmers."""
    match re.fullmatch(r"argument (-\w)/\S+: (?:(expected) .*|invalid int value: '(.*)')", str(error)):
        case None:
            return str(error)
        case found if found[2] is None:
            return f"{found[1]} takes a number, and `{found[3]}` is none"
        case found:
            return f"{found[1]} needs {_NEEDED.get(found[1], 'a number')} after it"


def _table(known: dict[str, tuple[str, str]]) -> list[str]:
    rows = [(f"{word} {what}".rstrip(), does) for word, (what, does) in known.items()]
    width = max(len(left) for left, _ in rows)
    blank = " " * (width + 4)
    return [
        line
        for left, does in rows
        for line in textwrap.wrap(
            does, _WIDTH, initial_indent=f"  {left.ljust(width)}  ", subsequent_indent=blank, break_on_hyphens=False
        )
    ]

"""What Tab offers: options and names on the first line of a `%%wool` cell, words and workers after `%wool`."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from IPython.core.completer import SimpleCompletion, context_matcher

from wool_jupyter.notebook.on_demand import loaded_runtime

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext
    from IPython.core.interactiveshell import InteractiveShell

    from wool_jupyter.notebook.magics import Wool

_CELL = re.compile(r"\s*%%wool\s(.*)", re.DOTALL)
_LINE = re.compile(r"(?:.*=)?\s*%wool\s+(.*)", re.DOTALL)
_NAMED_WORKERS = ("interrupt", "restart")


def install(shell: "InteractiveShell", wool: "Wool") -> None:
    @context_matcher()  # type: ignore[untyped-decorator]
    def wool_matcher(context: "CompletionContext") -> dict[str, Any]:
        offered = [word for word in _offers(context, wool) if word.startswith(context.token)]
        return {"completions": [SimpleCompletion(word, type="wool") for word in offered], "suppress": bool(offered)}

    shell.Completer.custom_matchers.append(wool_matcher)


def remove(shell: "InteractiveShell") -> None:
    """Idempotent."""
    matchers = shell.Completer.custom_matchers
    matchers[:] = [each for each in matchers if getattr(each, "__module__", "") != __name__]


def _offers(context: "CompletionContext", wool: "Wool") -> Iterable[str]:
    is_first = not context.full_text[: _start_of_line(context)].strip()
    before = context.line_with_cursor[: context.cursor_position]
    if is_first and (found := _CELL.fullmatch(before)):
        return _of_the_cell(found[1].split()[:-1] if context.token else found[1].split(), context.token, wool)
    if found := _LINE.fullmatch(before):
        return _of_the_line(found[1].split()[:-1] if context.token else found[1].split(), wool)
    return ()


def _start_of_line(context: "CompletionContext") -> int:
    return sum(len(line) + 1 for line in context.full_text.split("\n")[: context.cursor_line])


def _of_the_cell(given: list[str], token: str, wool: "Wool") -> Iterable[str]:
    latest = next((word for word in reversed(given) if word.startswith("-")), "")
    if token.startswith("-") or not latest:
        return wool.options_of_a_cell()
    if latest in ("-i", "--input", "-o", "--output"):
        hidden = wool.shell.user_ns_hidden
        return sorted(name for name in wool.shell.user_ns if not name.startswith("_") and name not in hidden)
    return ()


def _of_the_line(given: list[str], wool: "Wool") -> Iterable[str]:
    if not given:
        return wool.words()
    if given == [given[0]] and given[0] in _NAMED_WORKERS:
        return _workers()
    return ()


def _workers() -> list[str]:
    if loaded_runtime() is None:
        return []
    from wool_jupyter.notebook import by_hand

    return by_hand.short_uids()

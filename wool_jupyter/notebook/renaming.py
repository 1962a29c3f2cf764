"""The names that `-i` and `-o` of `%%wool` are given."""

import difflib
import keyword
from collections.abc import Mapping
from typing import Any

from IPython.core.error import UsageError


def renamed(option: str, given: list[list[str]] | None) -> dict[str, str] | None:
    """`a, b=c` as {"a": "a", "b": "c"}; the option may be given more than once."""
    if given is None:
        return None
    names: dict[str, str] = {}
    for part in (part for words in given for part in "".join(words).split(",")):
        if not part:
            raise UsageError(f"{option} has a comma too many, or a name too few, in `{','.join(map(''.join, given))}`")
        new, renames, old = part.partition("=")
        if renames and not (new and old):
            side = "before" if old else "after"
            raise UsageError(f"{option}: a name is missing {side} the `=` of `{part}`; `new=old` renames a variable")
        for name in (new, old or new):
            if not name.isidentifier() or keyword.iskeyword(name):
                raise UsageError(f"{option} takes names of variables, separated by commas, and `{part}` is none")
        if new in names:
            raise UsageError(f"{option} names `{new}` twice")
        names[new] = old or new
    return names


def must_exist(option: str, given: Mapping[str, str] | None, namespace: Mapping[str, Any]) -> None:
    for name in (given or {}).values():
        if name not in namespace:
            similar = difflib.get_close_matches(name, namespace, n=1, cutoff=0.8)
            hint = f" (did you mean `{similar[0]}`?)" if similar else ""
            raise UsageError(f"{option}: the notebook has no variable `{name}`{hint}")

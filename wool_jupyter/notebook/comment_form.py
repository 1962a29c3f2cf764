"""`# wool` or `# wool: options` on the first line, for editors that switch off on magics that they do not know.

The first transformer makes it `%%wool options`; all that follows, and every magic above that runs the cell's text, sees that.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_FORM = re.compile(r"#\s*wool(?:\s*:\s*(?P<options>.*)|\s+(?P<bare>--?\w.*))?")
_ORIGIN = "  # by comment\n"  # `%%wool` reads no further


def is_form(line: str) -> bool:
    return _FORM.fullmatch(line.strip()) is not None


def is_origin(comment: str) -> bool:
    """Of a `%%wool` line: that this wrote it."""
    return comment.strip() == _ORIGIN.strip(" #\n")


def to_magic(lines: list[str]) -> list[str]:
    """Of a whole cell, without blank lines above and common indentation."""
    found = _FORM.fullmatch(lines[0].strip()) if lines else None
    return lines if found is None else [f"%%wool {found['options'] or found['bare'] or ''}{_ORIGIN}", *lines[1:]]


def to_nothing(lines: list[str]) -> list[str]:
    """A cell of this comment alone remains a comment. (Not done by the other: a terminal would think that it is complete.)"""
    if lines and lines[0].startswith("%%wool ") and lines[0].endswith(_ORIGIN) and not "".join(lines[1:]).strip():
        return ["\n"]
    return lines


def load(shell: "InteractiveShell") -> None:
    unload(shell)
    shell.input_transformer_manager.cleanup_transforms.append(to_magic)
    shell.input_transformer_manager.line_transforms.insert(0, to_nothing)


def unload(shell: "InteractiveShell") -> None:
    """Idempotent."""
    manager = shell.input_transformer_manager
    manager.cleanup_transforms[:] = [each for each in manager.cleanup_transforms if each is not to_magic]
    manager.line_transforms[:] = [each for each in manager.line_transforms if each is not to_nothing]


@contextmanager
def as_comment(shell: "InteractiveShell") -> Iterator[None]:
    """For the text below a `%%wool`."""
    transforms = shell.input_transformer_manager.cleanup_transforms
    before = list(transforms)
    transforms[:] = [each for each in before if each is not to_magic]
    try:
        yield
    finally:
        transforms[:] = before

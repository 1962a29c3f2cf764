"""Errors of a cell, shown as if the cell had run here.

Every private or undocumented name of IPython that this takes is used in this file only (8.22 to 9.18):
`InteractiveShell.compile._filename_map`, `.InteractiveTB`, `.custom_exceptions`, `.CustomTB`, and the hook
`_render_traceback_` that an exception may carry. IPython does not ask that hook for a SyntaxError, nor for an error
with a group in its chain: those are shown by a custom handler that serves one cell.
"""

import contextlib
import sys
import traceback
from collections.abc import Iterator, Mapping
from itertools import pairwise
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from IPython.core.getipython import get_ipython

from wool_jupyter.errors import WoolError
from wool_jupyter.wire.tracebacks import entries_of, is_ipython, is_notebook, is_ours, is_rebuilt

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def show_natively(error: BaseException, shell: "InteractiveShell") -> None:
    """To be called just before the magic raises `error`."""
    _set_renderer(error, _UserTraceback(error))
    _OneCell(error, shell).arm()


def show_plainly(error: BaseException) -> None:
    """One line, for an error of which no frame is the user's."""
    _set_renderer(error, _LastLine(error))


def show_users_frames(error: BaseException) -> None:
    """Wherever it is shown; its causes are shown whole."""
    _set_renderer(error, _UserTraceback(error))


def rendered(error: BaseException, shell: "InteractiveShell") -> list[str]:
    """As a plain cell would show it, for an error that nobody raises here."""
    if isinstance(error, WoolError):
        return _LastLine(error)()
    frames = user_frames(error.__traceback__)
    if isinstance(error, SyntaxError):
        lines: list[str] = shell.SyntaxTB.structured_traceback(type(error), error, [])
    elif _bypasses_renderer(error):
        lines = traceback.format_exception(type(error), error, frames)
    else:
        lines = _UserTraceback(error)()
    return lines


def name_cell(shell: "InteractiveShell", filename: str, *, number: int) -> None:
    """Lines of `filename` are shown as those of `Cell In[number]`."""
    shell.compile._filename_map[filename] = number


def cells_by_name(shell: "InteractiveShell") -> Mapping[str, int]:
    """The number of each cell, by the file name of its code."""
    numbers: Mapping[str, int] = shell.compile._filename_map
    return numbers


def user_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Without IPython, us, whatever we called but lines of the notebook, and the lines that called a magic."""
    kept = None
    for entry in reversed(list(_kept(traceback))):
        kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _kept(traceback: TracebackType | None) -> Iterator[TracebackType]:
    inside_ours = False
    for entry, following in pairwise([*entries_of(traceback), None]):
        if entry is None:
            return
        frame = entry.tb_frame
        inside_ours = (inside_ours or is_ours(frame)) and not is_notebook(frame)
        calls_magic = following is not None and _runs_magic(following.tb_frame)
        if is_rebuilt(frame) or not (inside_ours or calls_magic or is_ipython(frame)):
            yield entry


def _runs_magic(frame: FrameType) -> bool:
    return is_ipython(frame) and frame.f_code.co_name in {"run_cell_magic", "run_line_magic"}


def _set_renderer(error: BaseException, renderer: "_Renderer") -> None:
    BaseException.__setattr__(error, "_render_traceback_", renderer)  # a frozen dataclass refuses the statement


class _Renderer:
    """A class, so that an error that carries it can still be pickled by the user."""

    def __init__(self, error: BaseException) -> None:
        self._error = error


class _UserTraceback(_Renderer):
    def __call__(self) -> list[str]:
        error = self._error
        frames = user_frames(error.__traceback__)
        lines: list[str] = get_ipython().InteractiveTB.structured_traceback(type(error), error, frames, tb_offset=0)
        return lines


class _LastLine(_Renderer):
    def __call__(self) -> list[str]:
        lines: list[str] = get_ipython().InteractiveTB.get_exception_only(type(self._error), self._error)
        return [line.rstrip("\n") for line in lines]


class _OneCell:
    """What is armed for one error, and gone when its cell has ended, whether or not the error came through."""

    def __init__(self, error: BaseException, shell: "InteractiveShell") -> None:
        self._error = error
        self._shell = shell
        self._previous = shell.custom_exceptions, shell.CustomTB
        self._armed: Any = None

    def arm(self) -> None:
        self._shell.events.register("post_run_cell", self._cell_ended)
        if _bypasses_renderer(self._error):
            self._shell.set_custom_exc((*self._previous[0], type(self._error)), self._show)
            self._armed = self._shell.CustomTB

    def _disarm(self) -> None:
        if self._armed is not None and self._shell.CustomTB is self._armed:
            self._shell.custom_exceptions, self._shell.CustomTB = self._previous
        self._armed = None

    def _show(
        self,
        shell: "InteractiveShell",
        kind: type[BaseException],
        value: BaseException,
        traceback: TracebackType | None,
        tb_offset: int | None = None,
    ) -> list[str]:
        self._disarm()
        if value is self._error:
            traceback = user_frames(traceback)
            value.with_traceback(traceback)
        kinds, handler = self._previous
        if isinstance(value, kinds):
            lines: list[str] = handler(kind, value, traceback, tb_offset)
            return lines
        shell.showtraceback((kind, value, traceback), tb_offset=tb_offset, running_compiled_code=value is self._error)
        return []

    def _cell_ended(self, _result: object) -> None:
        """From here on the error looks right also as another's cause and in %debug, and holds no frame of ours."""
        with contextlib.suppress(ValueError):
            self._shell.events.unregister("post_run_cell", self._cell_ended)
        self._disarm()
        self._error.with_traceback(user_frames(self._error.__traceback__))
        if getattr(sys, "last_value", None) is self._error:
            sys.last_traceback = self._error.__traceback__


def _bypasses_renderer(error: BaseException) -> bool:
    return isinstance(error, SyntaxError) or any(isinstance(each, BaseExceptionGroup) for each in _contexts(error))


def _contexts(error: BaseException) -> Iterator[BaseException]:
    seen = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = at.__context__

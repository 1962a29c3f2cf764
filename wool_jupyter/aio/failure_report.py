"""One failure, told to many."""

from typing import NoReturn


class FailureReport:
    """Raises the same instance for each caller, as it was when this report was made.

    Every raise adds frames to an instance's traceback and may stamp a context on it. Both are put back, so that the hundredth
    caller sees the origin and its own frames, and nobody else's. The origin's frames live as long as the report.
    """

    def __init__(self, failure: BaseException) -> None:
        self.failure = failure
        self._traceback = failure.__traceback__
        self._context = failure.__context__
        self._suppress_context = failure.__suppress_context__

    def report(self) -> NoReturn:
        try:
            raise self.failure.with_traceback(self._traceback)
        finally:
            # After the raise: it stamps whatever the caller is handling at the moment as the context.
            self.failure.__context__ = self._context
            self.failure.__suppress_context__ = self._suppress_context

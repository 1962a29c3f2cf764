"""Process state that follows the kernel into a cell, and comes back as differences."""

import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ambient:
    cwd: str | None  # None: the directory is gone
    environment: dict[str, str]
    path: list[str]
    argv: list[str]

    @classmethod
    def here(cls) -> "Ambient":
        try:
            cwd = os.getcwd()  # noqa: PTH109 (on the hot path)
        except FileNotFoundError:
            cwd = None
        return cls(cwd, dict(os.environ), list(sys.path), list(sys.argv))

    def follow(self, before: "Ambient") -> None:
        """Make this process's state what differs between `before` and this one. What neither changed stays as it is here."""
        if self.cwd is not None and self.cwd != before.cwd:
            os.chdir(self.cwd)
        for name in before.environment.keys() - self.environment.keys():
            os.environ.pop(name, None)
        for name, value in self.environment.items():
            if before.environment.get(name) != value:
                os.environ[name] = value
        if self.path != before.path:
            sys.path[:] = self.path
        if self.argv != before.argv:
            sys.argv[:] = self.argv

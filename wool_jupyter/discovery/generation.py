"""A generation: what one owner's stay in a namespace leaves on disk. What lies where, how it is found, whether its owner lives.

<root>/<namespace>/        the claim: an exclusive lock on this directory
    current                link to the generation that is served, replaced atomically
    <generation>/          10 hex digits, never reused; an exclusive lock says that its owner lives
        registry           header and slots; complete when it can be seen
        notify             a counter, written after each publish
        blocks/<uuid>      one file per worker, all of one size
        ...                what its owner keeps beside them
"""

import secrets
from pathlib import Path

from wool_jupyter.discovery import files

CURRENT = "current"
REGISTRY = "registry"
NOTIFY = "notify"
BLOCKS = "blocks"

NAME_MAX_BYTES = 255  # of a file


def checked(namespace: str) -> str:
    """ValueError unless it is one component of a path."""
    if not isinstance(namespace, str):
        raise TypeError(f"a namespace is a str, not {type(namespace).__name__}")
    if namespace in {"", ".", ".."} or "/" in namespace or "\0" in namespace:
        raise ValueError(f"a namespace is a single, non-empty component of a path, not {namespace!r}")
    if (size := len(namespace.encode("utf-8", "surrogateescape"))) > NAME_MAX_BYTES:
        raise ValueError(f"a namespace has at most {NAME_MAX_BYTES} bytes, not {size}")
    return namespace


def new_name() -> str:
    return secrets.token_hex(5)


def open_current(namespace: Path) -> tuple[int, str]:
    """The generation that is served, by descriptor and name. FileNotFoundError or NotADirectoryError if there is none."""
    above = files.open_directory(namespace)
    try:
        name = files.target(CURRENT, at=above)
        if "/" in name or name in {".", ".."}:
            raise NotADirectoryError(f"{namespace / CURRENT} leads out of the namespace, to {name}")
        return files.open_directory(name, at=above), name
    finally:
        files.close(above)


def is_owned(fd: int) -> bool:
    """Whether the owner of this generation lives. While it does this takes nothing, and it never disturbs another who asks."""
    try:
        files.lock_shared(fd)
    except BlockingIOError:
        return True
    files.unlock(fd)
    return False

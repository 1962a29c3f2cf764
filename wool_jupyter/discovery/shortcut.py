"""A short way to a generation: a Unix socket's path has about a hundred bytes, and a namespace may have a long name.

<root>/<namespace>/<generation>/     the directory
<root>-s/<generation>                a link to it, where the directory's own path is too long
"""

import contextlib
import errno
import os
from pathlib import Path

from wool_jupyter import host
from wool_jupyter.discovery import files
from wool_jupyter.wire import layout

_ATTEMPTS = 8  # somebody may remove the folder of links, which is empty, before ours is in it


def fits(directory: Path) -> bool:
    """Whether sockets in it can be bound by their path."""
    return len(os.fsencode(layout.behind_door(layout.socket(directory, "0" * 8)))) <= host.SOCKET_PATH_MAX_BYTES


def shortened(directory: Path) -> Path:
    """The generation itself, or the link to it, which is made."""
    if fits(directory):
        return directory
    link = _links(directory.parents[1]) / directory.name
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(FileExistsError):
            files.make_directory(link.parent)
        with contextlib.suppress(FileNotFoundError):
            files.link(directory, link)
            return link
    raise FileNotFoundError(errno.ENOENT, "vanishes as soon as it is made", str(link.parent))


def remove(directory: Path) -> None:
    """The link to a generation, if there is one, and the folder of links if it was the last."""
    links = _links(directory.parents[1])
    with contextlib.suppress(FileNotFoundError):
        files.unlink(links / directory.name)
        with contextlib.suppress(OSError):
            files.remove_directory(links)


def remove_dangling(root: Path) -> None:
    """Links to generations that are gone: a link is made after its generation, so it is never that of one to come."""
    links = _links(root)
    try:
        fd = files.open_directory(links)
    except FileNotFoundError:
        return
    try:
        for name in files.listed(fd):
            with contextlib.suppress(FileNotFoundError):
                if not files.exists(files.target(name, at=fd)):
                    files.unlink(name, at=fd)
    finally:
        files.close(fd)
    with contextlib.suppress(OSError):  # others are in use
        files.remove_directory(links)


def _links(root: Path) -> Path:
    return root.with_name(f"{root.name}-s")

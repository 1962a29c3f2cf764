"""Watches files for `watcher`: the only file that knows watchdog."""

import logging
import os
from collections.abc import Callable
from pathlib import Path

from watchdog import events as watchdog_events
from watchdog.events import (
    DirDeletedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import ObservedWatch

from wool_jupyter.discovery import files, generation

# Asks the kernel for these alone. watchdog 7.1 also knows `opened` and `closed`: who reads a file would wake itself.
_EVENTS: list[type[FileSystemEvent]] = [
    FileModifiedEvent, FileMovedEvent, FileCreatedEvent, FileDeletedEvent, DirDeletedEvent,
    getattr(watchdog_events, "FileAttribEvent", FileModifiedEvent),  # the same before 7.0
]  # fmt: skip

# watchdog 7.1 calls it an error when a thread of its own is stopped between two looks; nobody could do anything about it.
logging.getLogger("watchdog.observers.inotify").addFilter(
    lambda record: "thread is inactive" not in record.getMessage()
)


class FileObserver(FileSystemEventHandler):
    """Threads, from `start` to `stop`. `ring` is called on one of them with the directory of a registry that has changed."""

    def __init__(self, ring: Callable[[str], object]) -> None:
        """OSError where too few descriptors are left."""
        files.check_room(3)  # watchdog 7.1 loses one for good if there is only one or two
        self._ring = ring
        self._observer = Observer()

    def start(self) -> None:
        """RuntimeError if there can be no more threads."""
        self._observer.start()

    def watch(self, directory: str) -> ObservedWatch:
        """OSError, or RuntimeError as for `start`."""
        return self._observer.schedule(self, directory, event_filter=_EVENTS)

    def leave(self, watch: ObservedWatch) -> None:
        self._observer.unschedule(watch)

    def stop(self) -> None:
        self._observer.stop()

    def join(self) -> None:
        """Takes milliseconds."""
        self._observer.join()

    def dispatch(self, event: FileSystemEvent) -> None:
        """On the observer's thread."""
        for raw in (event.src_path, event.dest_path):
            path = Path(os.fsdecode(raw))
            if path.name == generation.NOTIFY:
                self._ring(str(path.parent))
            elif isinstance(event, DirDeletedEvent):
                self._ring(str(path))

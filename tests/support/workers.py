"""Records and events by number."""

from importlib.metadata import version
from uuid import UUID

from wool_jupyter.records import DiscoveryEvent, WorkerMetadata

VERSION = version("wool_jupyter")  # what a worker of another one is not asked for


def worker(number, address="unix:/w", **changes):
    return WorkerMetadata(UUID(int=number), address, 1000 + number, **{"version": VERSION, **changes})


def added(number, *change, **changes):
    return DiscoveryEvent("worker-added", worker(number, *change, **changes))


def updated(number, *change, **changes):
    return DiscoveryEvent("worker-updated", worker(number, *change, **changes))


def dropped(number, *change, **changes):
    return DiscoveryEvent("worker-dropped", worker(number, *change, **changes))

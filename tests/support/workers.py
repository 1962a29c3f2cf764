"""Records and events by number."""

from uuid import UUID

from wool_jupyter.records import DiscoveryEvent, WorkerMetadata


def worker(number, address="unix:/w", **changes):
    return WorkerMetadata(UUID(int=number), address, 1000 + number, "1", **changes)


def added(number, *change, **changes):
    return DiscoveryEvent("worker-added", worker(number, *change, **changes))


def updated(number, *change, **changes):
    return DiscoveryEvent("worker-updated", worker(number, *change, **changes))


def dropped(number, *change, **changes):
    return DiscoveryEvent("worker-dropped", worker(number, *change, **changes))

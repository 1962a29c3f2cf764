"""What is left of a kernel that is gone."""

import select
import time
from pathlib import Path

from wool_jupyter.discovery.claim import sweep_if_dead
from wool_jupyter.settings import CLAIM_PATIENCE_S, LOCK_PAUSE_MAX_S


def sweep(generation: Path) -> None:
    """Its locks may outlast the news of its end by a moment; a successor that has them has swept this generation first."""
    deadline = time.monotonic() + CLAIM_PATIENCE_S
    while generation.exists() and not sweep_if_dead(generation.parent) and time.monotonic() < deadline:
        select.select([], [], [], LOCK_PAUSE_MAX_S)  # nobody tells when a lock is free

"""What becomes of the calls that a worker had been sent when it ended."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from wool_jupyter.pool.call_item import Item
from wool_jupyter.settings import WORKERS_LOST_MAX


@dataclass(slots=True)
class Fates:
    again: list[Item] = field(default_factory=list)  # they run elsewhere, in their order
    failed: list[tuple[Item, str]] = field(default_factory=list)  # and how far each had come
    notice: str = ""  # of those that run again though they may have begun


def fates(sent: Sequence[Item], begun: int) -> Fates:
    """`begun`: the number of the last one that began there, 0 for none of them. Uses up what retries they have."""
    found, retried = Fates(), list[Item]()
    ran = next((item for item in sent if item.number == begun), None)
    for item in sent:
        item.workers_lost += item.number > begun
        if item.number > begun and item.workers_lost < WORKERS_LOST_MAX:
            found.again.append(item)
        elif item.retries:
            item.retries -= 1
            found.again.append(item)
            retried.append(item)
        else:
            found.failed.append((item, _how_far(item, ran)))
    if retried:
        one = ran if ran in retried else retried[0]
        more = f" and {len(retried) - 1} more are" if len(retried) > 1 else " is"
        found.notice = f"{one.words}{more} run again"
    return found


def _how_far(item: Item, ran: Item | None) -> str:
    """`ran`: the call in whose midst the worker has ended."""
    if ran is None or item.number > ran.number:
        return f"{item.words} had not begun; so did {WORKERS_LOST_MAX} workers end before they came to it"
    if item is ran:
        return f"{item.words} had begun, and may have run in part"
    return f"It was at {ran.words}. {item.words} has run before, and its result is lost"

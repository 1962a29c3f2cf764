"""A snapshot as text and as static HTML: for terminals, saved notebooks, GitHub, nbconvert."""

from collections.abc import Iterator
from html import escape

from wool_jupyter.notebook.snapshot import Pool, Snapshot, Worker
from wool_jupyter.quantities import size, span
from wool_jupyter.wire.store import Use

NO_POOL = "no pool runs; the next %%wool cell starts one"


def as_text(snapshot: Snapshot) -> str:
    """A line for each worker, and what is to be said of the pool."""
    rows = [_words(worker, snapshot.time) for worker in snapshot.workers]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, *(f"wool: {fact}" for fact in _facts(snapshot))])


def mimebundle(snapshot: Snapshot) -> dict[str, str]:
    """For the repr of whatever shows a pool."""
    return {"text/plain": as_text(snapshot), "text/html": as_html(snapshot)}


def as_html(snapshot: Snapshot) -> str:
    """Without styles and scripts: it is readable wherever HTML is shown, in the colours of that place."""
    facts = "; ".join(_facts(snapshot))
    if not snapshot.workers:
        return f"<p>wool: {escape(facts)}</p>"
    head = "".join(
        f'<th scope="col">{name}</th>' for name in ("worker", "pid", "state", "runs", "CPU", "memory", "done", "age")
    )
    rows = "".join(_row(worker, snapshot.time) for worker in snapshot.workers)
    caption = escape("; ".join([_pool_in_words(snapshot.pool, snapshot.time), *_facts(snapshot)]))
    return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _words(worker: Worker, now: float) -> tuple[str, ...]:
    return (
        f"worker {worker.name}",
        "" if worker.pid is None else f"pid {worker.pid}",
        worker.state,
        _runs(worker, now),
        "" if worker.cpu is None else f"{worker.cpu:.0%} CPU",
        _memory(worker),
        f"{worker.done} done" if worker.done else "",
        *_remarks(worker, now),
    )


def _row(worker: Worker, now: float) -> str:
    cells = (
        "" if worker.pid is None else str(worker.pid),
        worker.state,
        _runs(worker, now),
        "" if worker.cpu is None else f"{worker.cpu:.0%}",
        _memory(worker),
        str(worker.done),
        *_remarks(worker, now),
    )
    name = f'<th scope="row"><code>{worker.name}</code></th>'
    return f"<tr>{name}{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _runs(worker: Worker, now: float) -> str:
    return "" if worker.running is None else f"{worker.running.label} for {span(now - worker.running.since)}"


def _memory(worker: Worker) -> str:
    if worker.rss is None:
        return "" if worker.peak is None else f"peak {size(worker.peak)}"
    return size(worker.rss) if worker.peak is None else f"{size(worker.rss)} (peak {size(worker.peak)})"


def _remarks(worker: Worker, now: float) -> tuple[str]:
    if worker.state == "dead":
        return (f"{worker.why}, {span(now - worker.since)} ago",)
    said = [f"{span(now - worker.since)} old"]
    if worker.keeps:
        said.append(f"keeps {worker.keeps} value{'s' if worker.keeps > 1 else ''} of the notebook")
    if not worker.own:
        said.append("of another process")
    return (", ".join(said),)


def _pool_in_words(pool: Pool, now: float) -> str:
    age = "" if pool.since is None else f", {span(now - pool.since)} old"
    return f"wool: pool {pool.namespace}{age}, {pool.state}, {pool.size} worker{'' if pool.size == 1 else 's'}, {pool.most} at most"


def _facts(snapshot: Snapshot) -> Iterator[str]:
    pool = snapshot.pool
    match pool.state:
        case "none":
            yield NO_POOL
            if pool.why:
                yield f"the last start has failed: {pool.why}"
        case "starting":
            yield "the pool is starting"
        case "lost":
            yield pool.why
            yield NO_POOL
    if pool.waiting:
        yield f"{pool.waiting} wait{'s' if pool.waiting == 1 else ''} for a free worker"


def data_in_words(use: Use) -> str:
    return f"{size(use.kept)} of large data kept for workers, {size(use.needed)} of it in use; {size(use.most)} at most"

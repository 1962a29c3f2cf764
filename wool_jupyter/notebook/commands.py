"""What a panel or widget asks for, in words that both use.

{"do": "interrupt", "worker": uid, "id": 7}  ─▶  {"did": "interrupt", "error": "", "id": 7}
"""

import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from wool_jupyter.notebook.feed import door
from wool_jupyter.notebook.on_demand import loaded_runtime

if TYPE_CHECKING:
    from concurrent.futures import Future

    from wool_jupyter.notebook.magics import Wool
    from wool_jupyter.pool.kernel_pool import KernelPool

Answer: TypeAlias = Callable[[dict[str, Any]], object]

_NO_POOL = "no pool runs"


class Commands:
    """Answers come on other threads, once it is done. `options` are those of the magic, and follow what is asked for."""

    def __init__(self, options: "Wool") -> None:
        self._options = options

    def obey(self, request: object, answer: Answer, *, deaf: bool) -> None:
        """Returns at once: it is called where blocking would stop the kernel from hearing anything. `deaf`: whoever asks can't be
        heard while the main thread is busy."""
        words = request if isinstance(request, Mapping) else {}
        do = words.get("do")

        def reply(error: str) -> None:
            answer({"did": do, "error": error, **({"id": words["id"]} if "id" in words else {})})

        try:
            match words:
                case {"do": "hello" | "seen"}:
                    door().looked(deaf=deaf)
                    reply("")
                case {"do": "interrupt" | "restart" as action, "worker": str(worker)} if worker:
                    self._on_the_loop(reply, lambda pool: _to_worker(action, pool, worker))
                case {"do": "scale", "workers": int(workers)} if _is_number(workers):
                    self._scale(reply, workers)
                case {"do": "start", "workers": int(workers)} if _is_number(workers):
                    self._start(reply, workers)
                case {"do": "start"}:
                    self._start(reply, None)
                case {"do": "stop"}:
                    _apart(reply, _stop)
                case _:
                    reply(f"not understood: {request!r:.200}")
        except Exception as error:  # noqa: BLE001 (said to who asked)
            reply(_in_words(error))

    def _on_the_loop(
        self, reply: Callable[[str], None], act: "Callable[[KernelPool], Coroutine[Any, Any, object]]"
    ) -> None:
        runtime = loaded_runtime()
        pool = None if runtime is None else runtime.running
        if runtime is None or pool is None:
            reply(_NO_POOL)
            return
        runtime.bridge.enter(act(pool)).add_done_callback(lambda outcome: reply(_outcome_in_words(outcome)))

    def _scale(self, reply: Callable[[str], None], workers: int) -> None:
        runtime = loaded_runtime()
        if runtime is None or runtime.running is None:
            self._start(reply, workers)
            return
        self._options.workers = workers
        self._on_the_loop(reply, lambda pool: pool.crew.scale(workers))

    def _start(self, reply: Callable[[str], None], workers: int | None) -> None:
        settings = self._options.settings()
        if workers is not None:
            settings = replace(settings, workers=workers)

        def start() -> None:
            from wool_jupyter.notebook.runtime import runtime

            runtime().pool(settings)
            if workers is not None:  # one that was heeded is that of the pools to come, too
                self._options.workers = workers

        _apart(reply, start)


def _is_number(workers: int) -> bool:
    return not isinstance(workers, bool) and workers >= 1


async def _to_worker(action: str, pool: "KernelPool", worker: str) -> None:
    from wool_jupyter.notebook import by_hand

    await (by_hand.interrupt if action == "interrupt" else by_hand.restart)(pool, worker)


def _stop() -> None:
    if (runtime := loaded_runtime()) is not None:
        runtime.stop()


def _apart(reply: Callable[[str], None], act: Callable[[], object]) -> None:
    """On a thread of its own, for it takes seconds."""

    def acts() -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 (said to who asked)
            reply(_in_words(error))
        else:
            reply("")

    threading.Thread(target=acts, name="wool command", daemon=True).start()


def _outcome_in_words(outcome: "Future[Any]") -> str:
    if outcome.cancelled():
        return "the pool was stopped"
    error = outcome.exception()
    return "" if error is None else _in_words(error)


def _in_words(error: BaseException) -> str:
    return str(error) or type(error).__name__

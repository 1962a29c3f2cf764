"""What the workers run. A cell of each notebook, so the functions are the notebook's; each brings its own imports, as not every
peer ships what a function refers to."""


def add_one(number):
    return number + 1


def process_id():
    import os

    return os.getpid()


def nap(seconds):
    import threading

    threading.Event().wait(seconds)
    return seconds


def read(array):
    """Each page of it."""
    return float(array[::512].sum())


def make(first, count):
    """And how long that took."""
    import time

    import numpy as np

    began = time.perf_counter()
    array = np.arange(first, first + count, dtype=np.float64)
    return array, time.perf_counter() - began


def hold(task):
    """Keeps an array, if there is one, until all `workers` have it, each in another process. What `notebook` and its children take
    of the memory then, if that process is given."""
    import contextlib
    import os
    import threading
    import time
    from pathlib import Path

    array, folder, workers, notebook = task
    total = taken = 0

    def meet(place):
        (Path(folder) / f"{place}-{os.getpid()}").touch()
        deadline = time.monotonic() + 30
        while len(list(Path(folder).glob(f"{place}-*"))) < workers:
            if time.monotonic() > deadline:
                raise TimeoutError("another worker did not get its call")
            threading.Event().wait(0.002)

    if array is not None:
        total = float(array[::512].sum())
    meet("read")
    if notebook is not None:
        import psutil

        kernel = psutil.Process(notebook)
        for process in (kernel, *kernel.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
                taken += process.memory_full_info().pss
        meet("measured")
    return os.getpid(), total, taken

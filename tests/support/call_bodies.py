"""What tests have workers do: functions that a worker imports."""

import os
import signal
import sys
import threading
import time
from pathlib import Path


def until_there(path):
    """A gate: the test makes the file when the call shall go on."""
    while not Path(path).exists():
        time.sleep(0.01)  # noqa: TID251 (a worker waits for another process's file)


def leaves_mark(folder, number, seconds=0.0):
    """One file more for each time that this call has begun."""
    descriptor = os.open(f"{folder}/{number}.{os.getpid()}.{time.monotonic_ns()}", os.O_CREAT | os.O_EXCL)
    os.close(descriptor)
    time.sleep(seconds)  # noqa: TID251 (work that takes its time)
    return number


def marks_of(folder):
    """How often each call has begun."""
    begun = {}
    for mark in Path(folder).iterdir():
        number = int(mark.name.partition(".")[0])
        begun[number] = begun.get(number, 0) + 1
    return begun


def passes(folder, number):
    """Says that it has begun, and waits for its gate."""
    Path(f"{folder}/{number}.begun").touch()
    until_there(f"{folder}/{number}.gate")
    return number


def leaves_thread(folder, number):
    """Which waits for its gate, and prints."""

    def late():
        until_there(f"{folder}/{number}.gate")
        print("late", number)

    threading.Thread(target=late).start()


def pid():
    return os.getpid()


def divides(a, b):
    return a / b


def raises(error):
    raise error


def exits(code):
    os._exit(code)


def dies_once(flag):
    """Of SIGKILL, unless it was here before."""
    if not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def prints(number, lines=3):
    for line in range(lines):
        print(f"call {number} line {line}")
    os.write(1, f"call {number} raw\n".encode())
    os.system(f"echo call {number} child")
    print(f"call {number} end", file=sys.stdout)
    return number


def appends(path, name):
    """Behind what others have appended."""
    with Path(path).open("a") as file:
        file.write(f"{name} ")


def waits_if_told(folder, number, *, waits):
    """One function for both, so that nothing tells beforehand which of them take long."""
    leaves_mark(folder, number)
    if waits:
        until_there(f"{folder}.gate")
    return number


def ignores_interrupts(path):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Path(path).touch()
    until_there("/nowhere")


def tidies_up(folder):
    """After an interrupt, until it may go."""
    try:
        (folder / "begun").touch()
        until_there("/nowhere")
    except KeyboardInterrupt:
        (folder / "interrupted").touch()
        until_there(folder / "go")
        return "tidy"


def kills_itself_or_not(folder, number, *, dies):
    leaves_mark(folder, number)
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def takes(*args, **kwargs):
    return args, kwargs


class Thing:
    pass


def made(_):
    return Thing()

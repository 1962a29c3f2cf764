"""Sockets and ends of pipes that were closed (`finished`)."""

import pickle
from typing import Any

Reduced = tuple[Any, ...]


def _socket(sock: Any) -> Reduced | None:
    import socket

    if type(sock) is not socket.socket or sock.fileno() != -1:
        return None
    return closed_socket, (int(sock.family), int(sock.type), sock.proto, sock.gettimeout())


def closed_socket(family: int, kind: int, proto: int, timeout_s: float | None) -> Any:
    """Around a descriptor of another kind: this system may not know the family, or grant the type."""
    import socket

    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket(family, kind, proto, fileno=ours.detach()) as sock:
        sock.settimeout(timeout_s)
    return sock


def _channel(channel: Any) -> Reduced | None:
    """By itself it would travel as the number of a descriptor, and close whichever has that number where it arrives."""
    if not channel.closed:
        raise pickle.PicklingError(f"cannot pickle {type(channel).__name__!r} object")
    return None


REDUCERS = {
    ("socket", "socket"): _socket,
    ("multiprocessing.connection", "_ConnectionBase"): _channel,
}

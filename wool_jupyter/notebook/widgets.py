"""Widgets that were made on a worker, in the browser: their comms are opened here, under the cell, and hear nobody.

`comm` comes with ipykernel: without a kernel no worker sends any of this.
"""

from typing import Any


def say(kind: str, comm_id: str, content: dict[str, Any]) -> None:
    import comm

    if kind == "comm_open":
        _Model(comm_id, content)
        return
    opened = comm.get_comm_manager().comms.get(comm_id)
    if opened is None:
        return
    said = {key: content[key] for key in ("data", "metadata", "buffers")}
    if kind == "comm_close":
        opened.close(**said)
        return
    if isinstance(model := getattr(opened._msg_callback, "__self__", None), _Model):
        model.learn(content)
    opened.send(**said)


class _Model:
    """Held by its comm, as the one that hears. Remembers its state: a page that is loaded again asks for it, and waits."""

    def __init__(self, comm_id: str, content: dict[str, Any]) -> None:
        import comm

        self._state: dict[str, Any] = {}
        self._buffers: dict[tuple[Any, ...], Any] = {}
        self._comm = comm.create_comm(comm_id=comm_id, **content)
        self._comm.on_msg(self.hear)
        self.learn(content)

    def learn(self, content: dict[str, Any]) -> None:
        data = content["data"]
        state = data.get("state")
        if not isinstance(state, dict):
            return
        self._state |= state
        self._buffers = {path: buffer for path, buffer in self._buffers.items() if path[0] not in state}
        self._buffers |= zip(map(tuple, data.get("buffer_paths", [])), content["buffers"], strict=False)

    def hear(self, message: dict[str, Any]) -> None:
        if message["content"]["data"].get("method") == "request_state":
            paths = [list(path) for path in self._buffers]
            data = {"method": "update", "state": self._state, "buffer_paths": paths}
            self._comm.send(data=data, buffers=list(self._buffers.values()))

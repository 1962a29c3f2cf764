"""The token of a pool: sent as call metadata, checked before anything is unpickled.

Nothing secret is in a worker's record: who may read the directory of a worker's socket has the token from there.
"""

from pathlib import Path

from wool_jupyter.wire import layout

TOKEN_KEY = "wool-token"


def token_for(address: str) -> str:
    """OSError if the worker's pool is gone. Empty for a worker that listens on a port."""
    socket = layout.socket_at(address)
    return "" if socket is None else read_token(str(layout.pool_of(socket)))


def read_token(directory: str) -> str:
    return layout.token(Path(directory)).read_text(encoding="ascii")

"""The token of a pool: sent as call metadata, checked before anything is unpickled."""

from pathlib import Path

from wool_jupyter.wire import layout

TOKEN_KEY = "wool-token"


def read_token(directory: str) -> str:
    return layout.token(Path(directory)).read_text(encoding="ascii")

"""The token of a pool: sent as call metadata, checked before anything is unpickled."""

from pathlib import Path

TOKEN_KEY = "wool-token"
_FILE = "token"


def read_token(directory: str) -> str:
    return (Path(directory) / _FILE).read_text(encoding="ascii")

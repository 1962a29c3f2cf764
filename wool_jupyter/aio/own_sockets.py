"""Unix sockets of this user alone."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path


async def served(path: Path, made: Callable[[], asyncio.BaseProtocol]) -> asyncio.Server:
    """Accepts connections when it returns."""
    server = await asyncio.get_running_loop().create_unix_server(made, str(path), start_serving=False)
    os.chmod(path, 0o600)  # noqa: PTH101 (inline: nothing connects yet); the umask is the user's
    await server.start_serving()
    return server

"""Where a cell's text lies, and what a mark in its order file says. Written by `worker.cell.spool`, read by `notebook.outputs`."""

import struct

OUT, ERR = 0, 1
NAMES = ("stdout", "stderr")
ORDER = "order"
MARK = struct.Struct("<QQB7x")  # length of stdout, of stderr, the stream that goes on (+ EVENT)
EVENT = 2  # an event was sent at this point: what follows waits for it
PAIR = tuple[int, int]

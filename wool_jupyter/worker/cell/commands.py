"""`!command` of a cell, as IPython runs it: at a terminal of its own, and what it writes is shown as it comes.

IPython 9 has pexpect 4.9 look for the end in all that has come so far, again and again: 16 MB take half a minute.
"""

import codecs
import os
import sys
from time import monotonic

import pexpect
from IPython.utils.encoding import DEFAULT_ENCODING

_READ_BYTES = 1 << 16
_LAST_WORDS_S = 0.2  # that a command has after an interrupt
_INTERRUPT = "\x03"  # as of the key
_BY_SIGNAL = 128  # is what a shell adds to the number of a signal


def system(command: str) -> int:
    """Its exit status; the number of the signal that ended it, below zero."""
    child = pexpect.spawn(pexpect.which(os.environ.get("SHELL", "sh")) or "sh", ["-c", command], timeout=None)
    decoder = codecs.getincrementaldecoder(DEFAULT_ENCODING)("replace")
    try:
        _show(child, decoder)
    except KeyboardInterrupt:
        child.sendline(_INTERRUPT)
        try:
            _show(child, decoder, seconds=_LAST_WORDS_S)
        except KeyboardInterrupt:  # a second one
            pass
        finally:
            child.terminate(force=True)
    sys.stdout.write(decoder.decode(b"", final=True))
    child.isalive()  # which asks for its status
    if child.exitstatus is None:
        return -(child.signalstatus or 0)
    status: int = child.exitstatus
    return _BY_SIGNAL - status if status > _BY_SIGNAL else status


def _show(child: pexpect.spawn, decoder: codecs.IncrementalDecoder, *, seconds: float | None = None) -> None:
    """All that it writes until its end, or for as long as that."""
    until_s = None if seconds is None else monotonic() + seconds
    while True:
        try:
            data = child.read_nonblocking(_READ_BYTES, None if until_s is None else max(0, until_s - monotonic()))
        except (pexpect.EOF, pexpect.TIMEOUT):
            return
        sys.stdout.write(decoder.decode(data))
        sys.stdout.flush()

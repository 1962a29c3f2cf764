"""`python -P -m wool_jupyter.worker UID DIRECTORY NURSERY_PID` is a worker."""

import gc
import sys

if __name__ == "__main__":
    gc.disable()  # what is imported stays: to look for garbage among it would take 50 ms of a start
    from wool_jupyter.worker import process

    process.main(*sys.argv[1:4])

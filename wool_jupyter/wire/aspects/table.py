"""What of a process's state follows into a cell, in the order in which it is made so there.

Libraries are asked only when they are loaded. Large sets of options are told as what differs from the library's defaults, so that
an untouched library is not imported on the other side.
"""

from wool_jupyter.wire.aspects import ipython, loggers, matplotlib, numpy, pandas, process, torch
from wool_jupyter.wire.aspects.aspect import Aspect

ASPECTS: dict[str, Aspect] = {
    **process.ASPECTS,
    **loggers.ASPECTS,
    **ipython.ASPECTS,
    **numpy.ASPECTS,
    **pandas.ASPECTS,
    **torch.ASPECTS,
    **matplotlib.ASPECTS,
}

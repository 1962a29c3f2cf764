"""Names that IPython and Python put into a namespace by themselves: they are no variables of the user's."""

SHELL = frozenset("get_ipython exit quit open _sh __builtin__ __builtins__".split())
HISTORY = frozenset("In Out _ih _oh _dh _i _ii _iii".split())
MODULE = frozenset("__name__ __doc__ __package__ __loader__ __spec__".split())
ALL = SHELL | HISTORY | MODULE

"""`wool_jupyter.pool()` gives this notebook's pool, which is started if need be.

Its `submit`, `map` and `executor` run functions on the workers that run the notebook's cells.
"""

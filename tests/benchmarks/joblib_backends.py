"""joblib's backend "wool" beside its default one, loky, in the same kernel: the second number of each pair is loky's.

Cold: no worker of either has imported anything. The process that asks has, for both."""

from tests.benchmarks.cells import LOAD, Measured, fresh_kernel, took_s
from tests.support.kernel import Kernel

_DATA = """
import joblib
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC
X, y = load_digits(return_X_y=True)
GridSearchCV(SVC(), {"C": [1]}, cv=2).fit(X, y)
RandomForestClassifier(2).fit(X, y)
"""
_LARGE = "import joblib\nimport numpy as np\nX = np.random.default_rng(1).random(25_000_000)"

_SEARCH = 'GridSearchCV(SVC(), {"C": [1, 3, 10, 30], "gamma": [5e-4, 1e-3, 2e-3]}, cv=3, n_jobs=2).fit(X, y)'
_FOREST = "RandomForestClassifier(200, n_jobs=2).fit(X, y)"
_SMALL = "joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(n) for n in range(5000))"
_MAPPED = "joblib.Parallel(n_jobs=2, batch_size=1)(joblib.delayed(X.take)([n]) for n in range(20))"


def grid_search() -> Measured:
    return _cold_and_warm("grid search", _SEARCH, _DATA)


def forest() -> Measured:
    return _cold_and_warm("forest of 200 trees", _FOREST, _DATA)


def small_tasks() -> Measured:
    return _cold_and_warm("5,000 small tasks", _SMALL, "import joblib")


def large_array() -> Measured:
    """200 MB go to each of 20 tasks."""
    return _cold_and_warm("200 MB array to 20 tasks", _MAPPED, _LARGE)


def _cold_and_warm(name: str, code: str, data: str) -> Measured:
    with fresh_kernel(LOAD, data) as kernel:
        cold = {backend: _took_s(kernel, backend, code) for backend in ("loky", "wool")}
        turns = [{backend: _took_s(kernel, backend, code) for backend in ("wool", "loky")} for _ in range(3)]
        warm = {backend: min(turn[backend] for turn in turns) for backend in ("wool", "loky")}
    return {f"{name}, cold": (cold["wool"], cold["loky"]), f"{name}, warm": (warm["wool"], warm["loky"])}


def _took_s(kernel: Kernel, backend: str, code: str) -> float:
    return took_s(kernel, f'with joblib.parallel_config(backend="{backend}"):\n    _ = {code}')

"""The README's examples of the library, by the name in their first line."""

import re
from pathlib import Path

_README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
_SECTION = re.search(r"^## As a library\n(.*?)^## ", _README, re.MULTILINE | re.DOTALL)
assert _SECTION is not None
LIBRARY = _SECTION[1]
EXAMPLES = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", LIBRARY, re.MULTILINE | re.DOTALL))

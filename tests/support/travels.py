"""There and back again, as the values of a cell go (`wire.pickling`)."""

import pytest

from wool_jupyter.wire import pickling


def travelled(obj):
    """As after two trips, of which the second one packs what the first one has made."""
    first = pickling.loads(pickling.dumps(obj))
    again = pickling.dumps(first)
    assert again == pickling.dumps(pickling.loads(again)), "it would be taken for changed"
    return pickling.loads(again)


def stays(obj):
    with pytest.raises(Exception, match=r"(?i)pickl"):
        pickling.dumps(obj)

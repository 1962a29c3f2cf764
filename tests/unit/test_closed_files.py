"""Files that were closed (`wire.closed_files`), there and back again."""

import bz2
import gzip
import io
import lzma
import mmap
import tarfile
import tempfile
import threading
import urllib.request
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer

import pandas as pd
import pytest

from tests.support.travels import stays, travelled
from wool_jupyter.wire import reduction


def is_closed(file):
    with pytest.raises(ValueError, match="closed"):
        file.read()
    return file.closed


def name_of(file):
    try:
        return file.name
    except (AttributeError, ValueError):  # as it is closed, from Python 3.13 on
        return None


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
@pytest.mark.parametrize("mode", ["wb", "rb", "wt", "rt"])
def test_compressed_files(tmp_path, module, mode):
    path = tmp_path / "file"
    with module.open(path, "wt") as file:
        file.write("text")
    with module.open(path, mode) as file:
        stays(file)
    found = travelled(file)
    assert is_closed(found)
    assert type(found) is type(file)
    assert name_of(found) == name_of(file)
    found.close()


def test_archives_and_what_was_in_them(tmp_path):
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as written:
        written.addfile(tarfile.TarInfo("member"))
    with tarfile.open(tmp_path / "a.tar.gz") as read:
        read.getnames()
        stays(read)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        zipped.writestr("member", "text")
    with zipfile.ZipFile(tmp_path / "a.zip") as zipped, zipped.open("member") as member:
        stays(member)
    assert travelled(written).closed
    assert [member.name for member in travelled(read).members] == ["member"]
    assert is_closed(travelled(member))


def test_an_answer_of_a_server():
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/") as answer:
            text = answer.read()
        thread.join()
    found = travelled(answer)
    assert text == b"ok"
    assert (found.closed, found.status, found.headers["Content-Length"], found.url) == (True, 200, "2", answer.url)


def test_what_was_mapped_or_temporary(tmp_path):
    (tmp_path / "file").write_bytes(b"text")
    with (tmp_path / "file").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        stays(mapped)
    with tempfile.SpooledTemporaryFile() as spooled:
        pass
    assert is_closed(travelled(mapped))
    assert is_closed(travelled(spooled))


def test_files_in_memory():
    with io.StringIO("text") as text, io.BytesIO(b"bytes") as data:
        assert (travelled(text).getvalue(), travelled(data).getvalue()) == ("text", b"bytes")
    text.note = "mine"
    assert (is_closed(travelled(text)), is_closed(travelled(data)), travelled(text).note) == (True, True, "mine")


@pytest.mark.parametrize("kind", [io.StringIO, io.BytesIO])
def test_a_file_in_memory_is_closed_in_place(kind):
    original, closed = kind(), kind()
    closed.close()
    closed_now = reduction.reduction_of(closed)
    assert reduction.can_refill(original, closed_now)
    reduction.refill(original, closed_now)
    assert original.closed


def test_a_file_has_its_name_and_mode(tmp_path):
    with (tmp_path / "file").open("w", encoding="latin-1") as file:
        pass
    found = travelled(file)
    assert (found.name, found.mode, found.encoding, is_closed(found)) == (file.name, "w", "latin-1", True)
    with io.TextIOWrapper(io.BytesIO()) as nameless:
        pass
    assert not hasattr(travelled(nameless), "name")


def test_frames_that_were_read_in_chunks(tmp_path):
    pd.DataFrame({"a": range(5)}).to_csv(tmp_path / "file")
    with pd.read_csv(tmp_path / "file", chunksize=2) as reader:
        stays(reader)
        assert len(list(reader)) == 3
    found = travelled(reader)
    assert found.chunksize == 2
    assert list(found) == []


class Counts(io.RawIOBase):
    """Of a user's."""

    def __init__(self, inner):
        self.inner, self.count = inner, 0

    def readinto(self, _):
        self.count += 1
        return 0


def test_a_file_of_a_class_of_the_users(tmp_path):
    with (tmp_path / "file").open("wb") as inner, Counts(inner) as file:
        file.read(1)
        stays(file)
    found = travelled(file)
    assert (type(found), found.closed, found.count, found.inner.closed) == (Counts, True, 1, True)


def test_one_whose_state_is_not_in_its_attributes_stays(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as written:
        written.addfile(tarfile.TarInfo("member"))
    with tarfile.open(tmp_path / "a.tar") as read, read.extractfile("member") as member:
        pass
    assert member.closed
    stays(member)

"""Downloads, from a server on this machine."""

import threading
from functools import partial
from hashlib import md5
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from chimera_lab.data.download import download

CONTENTS = {"a.gz": b"first" * 1000, "b.gz": b"second"}
CHECKSUMS = {name: md5(content).hexdigest() for name, content in CONTENTS.items()}


class Counting(SimpleHTTPRequestHandler):
    """Serves files, and counts requests."""

    asked: list = []  # noqa: RUF012

    def do_GET(self):
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, *args):
        pass


@pytest.fixture
def address(tmp_path):
    for name, content in CONTENTS.items():
        (tmp_path / "served" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "served" / name).write_bytes(content)
    Counting.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Counting, directory=str(tmp_path / "served"))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_files_are_downloaded_once(address, tmp_path):
    folder = tmp_path / "data" / "set"
    for _ in range(2):
        assert download(address, CHECKSUMS, folder, "name a folder") == folder
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENTS
    assert Counting.asked == ["/a.gz", "/b.gz"]


def test_other_files_are_refused_and_those_before_are_kept(address, tmp_path):
    folder = tmp_path / "set"
    (tmp_path / "served" / "b.gz").write_bytes(b"cut")
    with pytest.raises(ValueError, match=r"/b.gz is not the published file: its MD5 is not \w+; name a folder"):
        download(address, CHECKSUMS, folder, "name a folder")
    assert not folder.exists()
    (tmp_path / "served" / "b.gz").write_bytes(CONTENTS["b.gz"])
    download(address, CHECKSUMS, folder, "name a folder")
    assert Counting.asked == ["/a.gz", "/b.gz", "/b.gz"]


def test_without_a_network_the_message_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match=r"http://127.0.0.1:9/a.gz could not be downloaded .*refused.*; name a folder"):
        download("http://127.0.0.1:9", CHECKSUMS, tmp_path / "set", "name a folder")

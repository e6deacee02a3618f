"""`streamcal.datasets.fetch`, against a web server on this machine that serves the originals, rebuilt from our files.

No test needs a network. That the rebuilt originals are the published ones, byte for byte, is what their sha256 says.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import socket
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from streamcal.datasets import fetch, fetching
from streamcal.errors import InputError, StreamcalError

DATA = Path(os.environ.get("STREAMCAL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
ROWS = {"adult_train": 32_561, "adult_test": 16_281, "bank_full": 45_211, "cdc_diabetes_brfss2015": 253_680}
#: Of the publisher's files, as others who downloaded them wrote down.
ORIGINALS = {
    "adult_train": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult_test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    "bank_full": "d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",
    "cdc_diabetes_brfss2015": "9f71fda9d4ae5f4878c99b9233b6a16accfa9a17c194116a6b78100540934964",
}
BANK_NUMBERS = {"age", "balance", "day", "duration", "campaign", "pdays", "previous"}

#: The first rows of two files, as published and as we keep them.
ADULT_TEST = (
    b"|1x3 Cross validator\n"
    b"25, Private, 226802, 11th, 7, Never-married, Machine-op-inspct, Own-child, Black, Male, 0, 0, 40, "
    b"United-States, <=50K.\n"
    b"18, ?, 103497, Some-college, 10, Never-married, ?, Own-child, White, Female, 0, 0, 30, United-States, <=50K.\n\n"
)
ADULT_TEST_KEPT = (
    b"age,workclass,fnlwgt,education,education_num,marital_status,occupation,relationship,race,sex,capital_gain,"
    b"capital_loss,hours_per_week,native_country,income\n"
    b"25,Private,226802,11th,7,Never-married,Machine-op-inspct,Own-child,Black,Male,0,0,40,United-States,<=50K\n"
    b"18,?,103497,Some-college,10,Never-married,?,Own-child,White,Female,0,0,30,United-States,<=50K\n"
)
BANK = b'"age";"job";"balance";"y"\n58;"management";2143;"no"\n41;"admin.";-372;"yes"\n'
BANK_KEPT = b"age,job,balance,y\n58,management,2143,no\n41,admin.,-372,yes\n"

Serve = Callable[[str, bytes], None]


def zipped(content: bytes, *path: str) -> bytes:
    """`content` inside zip files inside each other, beside something else."""
    for name in reversed(path):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("Index", "what is here")
            archive.writestr(name, content)
        content = file.getvalue()
    return content


def original(name: str, rows: list[list[str]]) -> bytes:
    """Return the publisher's file, from our rows."""
    header, *rest = rows
    if name == "adult_train":
        text = "".join(", ".join(row) + "\n" for row in rest) + "\n"
    elif name == "adult_test":
        text = "|1x3 Cross validator\n" + "".join(", ".join(row) + ".\n" for row in rest) + "\n"
    elif name == "bank_full":
        text = ";".join(f'"{word}"' for word in header) + "\n"
        for row in rest:
            cells = zip(header, row, strict=True)
            text += ";".join(cell if column in BANK_NUMBERS else f'"{cell}"' for column, cell in cells) + "\n"
    else:
        numbered = [["ID", *header], *([str(i), *row] for i, row in enumerate(rest))]
        text = "".join(",".join(row) + "\r\n" for row in numbered)
    return text.encode()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set up a machine without data, whose cache is a folder of the test."""
    monkeypatch.delenv("STREAMCAL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache" / "streamcal"


@pytest.fixture
def asked() -> list[str]:
    """Return the list of addresses requested from the server."""
    return []


@pytest.fixture
def serve(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """`serve(name, content)` puts `content` where `fetch(name)` will look for it."""
    served: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            content = served.get(self.path)
            self.send_response(200 if content is not None else 404)
            self.end_headers()  # without a length, as UCI answers
            self.wfile.write(content or b"<html>gone</html>")

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    def put(name: str, content: bytes) -> None:
        served[f"/{name}"] = content
        url = f"http://127.0.0.1:{server.server_port}/{name}"
        monkeypatch.setitem(fetching.SOURCES, name, fetching.SOURCES[name]._replace(url=url))

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield put
        server.shutdown()


def expect(name: str, text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `text` the known text of the data set."""
    source = fetching.SOURCES[name]._replace(sha256=hashlib.sha256(text).hexdigest())
    monkeypatch.setitem(fetching.SOURCES, name, source)


def move(name: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fetching.SOURCES, name, fetching.SOURCES[name]._replace(url=url))


def silent_port() -> int:
    """Return a port of this machine on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", ROWS)
def test_what_is_fetched_is_our_file_cell_by_cell(name: str, serve: Serve, home: Path) -> None:
    ours = DATA / f"{name}.csv.gz"
    if not ours.exists():
        pytest.skip(f"needs {ours.name}: set STREAMCAL_DATA to its folder")
    with gzip.open(ours, "rt", newline="") as file:
        rows = list(csv.reader(file))
    published = original(name, rows)
    assert hashlib.sha256(published).hexdigest() == ORIGINALS[name], "the original, byte for byte"
    serve(name, zipped(published, *fetching.SOURCES[name].members))
    path = fetch(name)
    assert path == home / f"{name}.csv.gz"
    assert gzip.decompress(path.read_bytes()) == gzip.decompress(ours.read_bytes()), "every cell, in every byte"
    assert len(rows) == ROWS[name] + 1


@pytest.mark.parametrize(
    ("name", "published", "kept"), [("adult_test", ADULT_TEST, ADULT_TEST_KEPT), ("bank_full", BANK, BANK_KEPT)]
)
def test_fetched_once(
    name: str, published: bytes, kept: bytes, serve: Serve, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(name, zipped(published, *fetching.SOURCES[name].members))
    expect(name, kept, monkeypatch)
    path = fetch(name)
    assert gzip.decompress(path.read_bytes()) == kept
    assert fetch(name) == path
    assert asked == [f"/{name}"]


def test_it_is_looked_for_in_the_data_folder_then_in_the_cache(
    serve: Serve, asked: list[str], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve("bank_full", zipped(BANK, "bank.zip", "bank-full.csv"))
    expect("bank_full", BANK_KEPT, monkeypatch)
    cached = fetch("bank_full")
    data = tmp_path / "data"
    monkeypatch.setenv("STREAMCAL_DATA", str(data))
    assert fetch("bank_full") == cached
    assert not data.exists()
    cached.unlink()
    assert fetch("bank_full") == data / "bank_full.csv.gz"
    assert fetch("bank_full", tmp_path / "mine") == tmp_path / "mine" / "bank_full.csv.gz"
    assert asked == 3 * ["/bank_full"]
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (zipped(BANK + BANK, "bank.zip", "bank-full.csv"), "5 rows under the header 'age,job,balance,y', sha256 "),
        (zipped(BANK, "bank.zip", "bank.csv"), "bank-full.csv"),
        (zipped(BANK, "bank.zip", "bank-full.csv")[:200], "not a zip file"),
        (zipped(b"\xff\xfe", "bank.zip", "bank-full.csv"), "can't decode"),
        (b"", "not a zip file"),
    ],
)
def test_another_file_is_refused_and_nothing_is_kept(content: bytes, says: str, serve: Serve, home: Path) -> None:
    serve("bank_full", content)
    with pytest.raises(StreamcalError, match=r"what http://127\.0\.0\.1:\d+/bank_full gives is not ") as caught:
        fetch("bank_full")
    assert says in str(caught.value)
    assert list(home.iterdir()) == []


def test_without_a_network_it_says_what_to_do(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://127.0.0.1:{silent_port()}/adult.zip"
    move("adult_train", url, monkeypatch)
    monkeypatch.setenv("STREAMCAL_DATA", str(tmp_path / "data"))
    with pytest.raises(StreamcalError) as caught:
        fetch("adult_train")
    for part in ("adult_train.csv.gz", url, str(tmp_path / "data"), str(home), "by hand", "refused"):
        assert part in str(caught.value)


def test_a_missing_page_a_silent_server_and_a_folder_that_cannot_be_are_told(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve("bank_full", b"")
    move("bank_full", fetching.SOURCES["bank_full"].url + "/old", monkeypatch)
    with pytest.raises(StreamcalError, match="404"):
        fetch("bank_full")
    (tmp_path / "file").touch()
    with pytest.raises(StreamcalError, match="File exists"):
        fetch("bank_full", tmp_path / "file")
    monkeypatch.setattr(fetching, "TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        move("bank_full", f"http://127.0.0.1:{mute.getsockname()[1]}/", monkeypatch)
        with pytest.raises(StreamcalError, match="timed out"):
            fetch("bank_full")


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"'iris'.*'adult_train', .*'bank_full' or 'cdc_.*'"):
        fetch("iris")


def test_a_terminal_sees_a_bar(
    serve: Serve, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve("bank_full", zipped(BANK, "bank.zip", "bank-full.csv"))
    expect("bank_full", BANK_KEPT, monkeypatch)
    screen = io.StringIO()
    monkeypatch.setattr(fetching, "Console", lambda stderr: Console(file=screen, force_terminal=stderr))
    fetch("bank_full")
    assert "bank_full" in screen.getvalue()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "content",
    [zipped(b"0" * (1 << 20), "bank.zip", "bank-full.csv"), os.urandom((1 << 16) + 1)],
    ids=["bomb", "download"],
)
def test_what_is_too_large_is_refused(
    content: bytes, serve: Serve, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousandth of its size is downloaded of what is packed as well as it can be."""
    monkeypatch.setattr(fetching, "LARGEST", 1 << 16)
    serve("bank_full", content)
    with pytest.raises(StreamcalError, match="is not bank_full: it has more than 65,536 bytes"):
        fetch("bank_full")
    assert not list(home.glob("*"))

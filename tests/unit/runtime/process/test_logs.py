"""Log lines: for machines, for people, and never with a credential."""

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.runtime.process.logs import REDACTED, LogFormat, TextFormatter, configure, redact

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl"


@pytest.fixture(autouse=True)
def root_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(format: LogFormat, *calls: tuple[int, str, dict[str, Any]], level: str = "INFO") -> list[str]:
    stream = io.StringIO()
    configure(format, level, stream)
    for number, message, fields in calls:
        logging.getLogger("muster.test").log(number, message, extra=fields)
    return stream.getvalue().splitlines()


def test_json_line_has_the_fields() -> None:
    (line,) = lines("json", (logging.WARNING, "it failed", {"key": "ns/a", "retry_seconds": 0.5, "odd": {1}}))
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "warning",
        "logger": "muster.test",
        "message": "it failed",
        "key": "ns/a",
        "retry_seconds": 0.5,
        "odd": [1],
    }


def test_json_line_takes_any_value() -> None:
    (line,) = lines("json", (logging.INFO, "x", {"what": object, "raw": b"\xff"}))
    assert "class 'object'" in json.loads(line)["what"]


def test_text_line_is_short() -> None:
    (line,) = lines("text", (logging.WARNING, "it failed", {"key": "ns/a"}))
    time, _, rest = line.partition(" ")
    assert len(time) == len("12:34:56.789")
    assert rest == "WARN  it failed  key=ns/a"


def test_level_is_a_threshold() -> None:
    calls: list[tuple[int, str, dict[str, Any]]] = [
        (logging.DEBUG, "d", {}),
        (logging.INFO, "i", {}),
        (logging.ERROR, "e", {}),
    ]
    assert len(lines("text", *calls)) == 2
    assert len(lines("text", *calls, level="DEBUG")) == 3


@pytest.mark.parametrize("format", ["json", "text"])
def test_traceback_is_there(format: LogFormat) -> None:
    stream = io.StringIO()
    configure(format, stream=stream)
    try:
        raise ZeroDivisionError(f"Bearer {JWT}")
    except ZeroDivisionError:
        logging.getLogger("muster.test").exception("it failed")
    text = stream.getvalue()
    assert "ZeroDivisionError" in text
    assert "test_traceback_is_there" in text
    assert JWT not in text


def test_hostile_text_cannot_forge_a_line() -> None:
    (line,) = lines("text", (logging.INFO, "pod a\n12:00:00.000 ERROR forged\x1b[31m", {"key": "b\r\nc"}))
    assert r"a\n12:00:00.000 ERROR forged\x1b[31m  key=b\r\nc" in line


SECRETS = [
    f"Authorization: Bearer {JWT}",
    "authorization: bearer abcdefgh12345678",
    "Basic dXNlcjpwYXNzd29yZA==",
    f"token is {JWT}, keep it",
]


@pytest.mark.parametrize("format", ["json", "text"])
@pytest.mark.parametrize("text", SECRETS)
def test_credentials_in_text_are_cut_out(format: LogFormat, text: str) -> None:
    (line,) = lines(format, (logging.INFO, text, {"header": text, "headers": {"x": text}}))
    assert line.count(REDACTED) == 3
    for word in (JWT, "abcdefgh12345678", "dXNlcjpwYXNzd29yZA=="):
        assert word not in line


@pytest.mark.parametrize("format", ["json", "text"])
@pytest.mark.parametrize("name", ["token", "bearer_token", "password", "client_key_data", "privateKey", "secret"])
def test_fields_with_telling_names_are_cut_out(format: LogFormat, name: str) -> None:
    (line,) = lines(format, (logging.INFO, "x", {name: "hunter2"}))
    assert "hunter2" not in line
    assert REDACTED in line


@pytest.mark.parametrize("text", ["a bearer of news", "basic needs", "key default/a failed", "e.g. eyJ is no token"])
def test_plain_words_stay(text: str) -> None:
    assert redact(text) == text


def test_goes_to_standard_error_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    configure()
    logging.getLogger("muster.test").info("hello")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hello" in captured.err
    assert isinstance(logging.getLogger().handlers[0].formatter, TextFormatter)
    assert vars(logging.getLogger().handlers[0])["stream"] is sys.stderr


CHATTER = """
import logging, sys
from pathlib import Path
from muster.runtime.process import logs

path, lines = Path(sys.argv[1]), int(sys.argv[2])
logs.configure(level="INFO")
handler = logs.Rotating(path, 1000)
handler.setFormatter(logging.Formatter("%(message)s"))
logging.getLogger().handlers[:] = [handler]
for number in range(lines):
    logging.getLogger().info("%090d", number)
print("to standard output", flush=True)
sys.exit("last words")
"""


def _chatted(path: Path, lines: int, *, taken_away: bool = False) -> None:
    with path.open("a") as log:
        if taken_away:
            path.unlink()
        subprocess.run(
            [sys.executable, "-c", CHATTER, str(path), str(lines)], stdout=log, stderr=log, timeout=30, check=False
        )


def test_a_long_file_is_moved_aside_in_place_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    _chatted(path, 35)
    before, now = path.with_name("server.log.1").read_text().splitlines(), path.read_text().splitlines()
    assert [int(line) for line in before] == list(range(22, 33))
    assert [int(line) for line in now[:2]] == [33, 34]
    assert now[2:] == ["to standard output", "last words"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_moved_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.with_name("server.log.1").mkdir()
    _chatted(path, 35)
    assert [int(line) for line in path.read_text().splitlines()[:35]] == list(range(35))


def test_a_file_that_was_taken_away_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    _chatted(path, 35, taken_away=True)
    assert [int(line) for line in path.with_name("server.log.1").read_text().splitlines()] == list(range(22, 33))
    assert [int(line) for line in path.read_text().splitlines()[:2]] == [33, 34]

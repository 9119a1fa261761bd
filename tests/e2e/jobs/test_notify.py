"""Jobs that tell somebody of their start and end."""

import json
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest


class Hook(HTTPServer):
    """A receiver of notices, which refuses the first request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.bodies: list[dict[str, str]] = []
        self.requests = 0


class Receiver(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests += 1
        if self.server.requests > 1:
            self.server.bodies.append(body)
        self.send_response(200 if self.server.requests > 1 else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def wait_until(holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_url_and_a_command_are_told_of_the_end(up, hook, tmp_path):
    told = tmp_path / "told"
    tell = f'echo "$MUSTER_JOB $MUSTER_EVENT $MUSTER_JOB_STATE $WORD $PWD" >> {told}'
    where = ["--notify", f"http://127.0.0.1:{hook.server_port}/hook", "--notify", tell]
    options = ["--name", "train", "--workdir", str(tmp_path), "--env", "WORD=please", *where]
    up("run", *options, "--notify-on", "end,fail", "--", "false", check=False)
    wait_until(lambda: told.exists() and hook.bodies)
    assert told.read_text() == f"train fail Failed please {tmp_path}\n"
    [body] = hook.bodies
    assert (body["job"], body["event"], body["state"]) == ("train", "fail", "Failed")
    assert body["text"].startswith("train: failed: ")
    assert "notice" not in up("ps", "--all").stdout


def test_a_server_that_was_killed_tells_of_what_happened_once(muster, tmp_path):
    told, go = tmp_path / "told", tmp_path / "go"
    server = muster.start("up", "--port", "0")
    assert "ready" in server.stdout.readline()
    wait = f"until [ -e {go} ]; do sleep 0.1; done"
    muster("run", "--detach", "--name", "train", "--notify", f"echo $MUSTER_EVENT >> {told}", "--", "sh", "-c", wait)
    wait_until(lambda: "Running" in muster("ps", "train").stdout)
    server.kill()
    server.communicate()
    go.touch()
    time.sleep(1)
    assert not told.exists()
    muster("up", "--detach", "--port", "0")
    wait_until(told.exists)
    muster("wait", "train")
    time.sleep(2)
    assert told.read_text() == "end\n"


def test_mail_goes_through_sendmail(up, tmp_path):
    sendmail, sent = tmp_path / "bin" / "sendmail", tmp_path / "sent"
    sendmail.parent.mkdir()
    sendmail.write_text(f'#!/bin/sh\necho "$@" > {sent}.new; cat >> {sent}.new; mv {sent}.new {sent}\n')
    sendmail.chmod(0o755)
    up.environment["PATH"] = f"{sendmail.parent}{os.pathsep}{up.env()['PATH']}"
    up("run", "--name", "train", "--notify", "ada@example.org", "--", "true")
    wait_until(sent.exists)
    arguments, *lines = sent.read_text().splitlines()
    assert arguments == "-i -t"
    assert {"To: ada@example.org", "Subject: [muster] train: completed", "State: Completed"} <= set(lines)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--notify", "http://"], "'http://' is no URL, such as https://example.org/hook"),
        (["--notify", "x", "--notify-on", "ende"], "'ende' is no event of a job: there are start, requeue, end, fail"),
        (["--notify-on", "end"], "--notify-on: say whom to tell with --notify"),
        (["--notify", "true"], "--notify: only a server sends notices; start one with: muster up --detach"),
    ],
)
def test_what_cannot_be_sent_is_refused(muster, options, complaint):
    done = muster("run", *options, "--", "true", check=False)
    assert done.returncode == 2
    assert complaint in done.stderr


def test_mail_of_a_script_without_a_server_is_left_out(muster, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH --mail-type=END\n#SBATCH --mail-user=ada@example.org\necho done\n")
    done = muster("run", str(script))
    assert done.stdout == "done\n"
    assert "no notice is sent: only a server sends notices" in done.stderr

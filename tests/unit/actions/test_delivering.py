"""How a notice reaches its target."""

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from muster.actions.delivering import deliver, explain_unsent, read_notice
from muster.actions.errors import UserError
from muster.api.ours.notify import NoticeSettings
from muster.runtime.clock import RealClock

TOLD = {
    "MUSTER_JOB": "train",
    "MUSTER_NAMESPACE": "lab",
    "MUSTER_EVENT": "fail",
    "MUSTER_JOB_STATE": "Failed",
    "MUSTER_JOB_REASON": "BackoffLimitExceeded: enough",
}


def test_a_notice_has_a_sentence() -> None:
    notice = read_notice(TOLD)
    assert (notice.job, notice.namespace, notice.event) == ("train", "lab", "fail")
    assert notice.text == notice.content == "train: failed: BackoffLimitExceeded: enough"


def test_a_receiver_that_refuses_is_asked_once_and_its_url_is_not_named() -> None:
    asked = []

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/secret"
        with pytest.raises(UserError) as refused:
            asyncio.run(deliver(url, TOLD, RealClock()))
        server.shutdown()
        thread.join()
    assert str(refused.value) == "the receiver did not take the notice: HTTP status 404"
    assert asked == ["/secret"]


def test_a_complaint_of_sendmail_is_told(tmp_path: Path) -> None:
    sendmail = tmp_path / "sendmail"
    sendmail.write_text("#!/bin/sh\ncat >/dev/null; echo no such user >&2; exit 67\n")
    sendmail.chmod(0o755)
    with pytest.raises(UserError, match="sendmail ended with exit code 67: no such user"):
        asyncio.run(deliver("mailto:ada", TOLD | {"PATH": f"{tmp_path}:/bin:/usr/bin"}, RealClock()))


@pytest.mark.parametrize(
    ("target", "embedded", "complaint"),
    [
        ("true", True, ""),
        ("true", False, "only a server sends notices; start one with: muster up --detach"),
    ],
)
def test_what_nothing_would_send(target: str, embedded: bool, complaint: str) -> None:
    assert explain_unsent(NoticeSettings((target,)), "/nowhere", embedded=embedded) == complaint

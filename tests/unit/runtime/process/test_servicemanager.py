"""What a service manager hears, at a socket that stands for systemd's."""

import logging
import os
import socket
from pathlib import Path

import pytest

from muster.runtime.process.servicemanager import report_readiness


@pytest.mark.parametrize("abstract", [False, True])
def test_the_manager_hears_once_that_the_process_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool
) -> None:
    address = f"{'@' if abstract else ''}{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address.replace("@", "\0"))
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        report_readiness()
        assert "NOTIFY_SOCKET" not in os.environ, "no job may speak for the server"
        report_readiness()
        assert manager.recv(100) == b"READY=1"
        manager.setblocking(False)
        with pytest.raises(BlockingIOError):
            manager.recv(100)


def test_a_manager_that_is_gone_stops_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/missing")
    with caplog.at_level(logging.WARNING):
        report_readiness()
    assert f"{tmp_path}/missing: [Errno 2] No such file or directory" in caplog.text

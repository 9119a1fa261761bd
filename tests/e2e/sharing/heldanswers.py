"""A socket in front of a server's own, which holds back the answer to a submission until a test decides about it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SUBMISSIONS = (b"POST /apis/jobset.x-k8s.io/", b"POST /apis/batch/")


class HeldAnswers:
    """Passes requests on to the server, and answers back, except the answers to submissions.

    held: set once the server has answered a submission. lost: set by the test to break the connection instead.
    """

    def __init__(self, home: Path) -> None:
        self.held, self.lost = threading.Event(), threading.Event()
        self._open: list[socket.socket] = []
        self._server = home / "real.sock"
        (home / "server.sock").rename(self._server)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(home / "server.sock"))
        (home / "server.sock").chmod(0o600)
        self._listener.listen(20)
        threading.Thread(target=self._accept).start()

    def close(self) -> None:
        """Give the server its socket back."""
        self.lost.set()
        self._server.rename(self._server.with_name("server.sock"))
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._server))
                self._open += [client, server]
                submitting = threading.Event()
                threading.Thread(target=self._pass_requests, args=(client, server, submitting)).start()
                threading.Thread(target=self._pass_answers, args=(server, client, submitting)).start()

    def _pass_requests(self, client: socket.socket, server: socket.socket, submitting: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if data.startswith(SUBMISSIONS):
                    submitting.set()
                server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)

    def _pass_answers(self, server: socket.socket, client: socket.socket, submitting: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if submitting.is_set():
                    self.held.set()
                    self.lost.wait()
                    break
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)


@contextmanager
def held_answers(home: Path) -> Iterator[HeldAnswers]:
    """Hold back the answers to submissions until the context ends."""
    answers = HeldAnswers(home)
    try:
        yield answers
    finally:
        answers.close()

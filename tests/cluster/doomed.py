"""`muster controllers` that dies without a word, as by kill -9, once so many writes of its engine have been answered.

`python -m tests.cluster.doomed N PART OPTION...`: writes whose path has that part in it, or "" for all; with N = 0 it
lives. Each write is printed. Those of the Lease and of events do not count.
"""

import os
import signal
import sys

from muster.cli.commands.kubernetes.controllers import command
from muster.runtime.kube.https import HttpsTransport
from muster.runtime.transport import Request, Response

UNCOUNTED = ("/leases", "/events", "/tokenreviews", "/subjectaccessreviews")


def main() -> None:
    left, part, options = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    send = HttpsTransport.request

    async def counted(self: HttpsTransport, request: Request) -> Response:
        nonlocal left
        counts = request.method != "GET" and not any(each in request.path for each in UNCOUNTED)
        if counts:
            print(f"to write: {request.method} {request.path}", flush=True)
        answer = await send(self, request)
        if counts:
            print(f"write: {request.method} {request.path} {answer.status}", flush=True)
            left -= part in request.path
            if left == 0 and part in request.path:
                os.kill(os.getpid(), signal.SIGKILL)
        return answer

    HttpsTransport.request = counted  # type: ignore[method-assign]
    command(options)


if __name__ == "__main__":
    main()

import asyncio
import errno
import resource
import socket
import subprocess
import sys

import pytest

from muster.runtime.process.descriptors import shorten_reports_of_exhaustion

# In a process of its own: limits that were lowered do not come back.
PROGRAM = """
import resource
from muster.runtime.process.descriptors import allow_descriptors
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
allow_descriptors({wanted})
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "left"),
    [(256, 1024, 512, "512 1024"), (256, 1024, 4096, "1024 1024"), (512, 1024, 300, "512 1024")],
)
def test_open_files_are_allowed_as_far_as_may_be(soft, hard, wanted, left):
    program = PROGRAM.format(soft=soft, hard=hard, wanted=wanted)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == left


def test_a_server_without_free_files_reports_that_in_a_line_and_goes_on(caplog):
    async def story():
        shorten_reports_of_exhaustion(asyncio.get_running_loop())
        served = asyncio.Event()

        async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()
            await writer.wait_closed()
            served.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        async with server:
            with socket.create_connection(server.sockets[0].getsockname()) as client:
                resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno(), hard))
                try:
                    while not caplog.records:
                        await asyncio.sleep(0)
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                await served.wait()

    asyncio.run(story())
    assert [one.getMessage() for one in caplog.records] == [
        "no connections are accepted for a moment: Too many open files"
    ]


def test_attempts_in_one_second_are_reported_once(caplog):
    async def story():
        loop = asyncio.get_running_loop()
        shorten_reports_of_exhaustion(loop)
        error = OSError(errno.EMFILE, "Too many open files")
        for _ in range(1000):
            loop.call_exception_handler({"message": "socket.accept()", "exception": error, "socket": None})

    asyncio.run(story())
    assert len(caplog.records) == 1


def test_other_reports_of_the_loop_stay(caplog):
    async def story():
        loop = asyncio.get_running_loop()
        shorten_reports_of_exhaustion(loop)
        loop.call_exception_handler({"message": "a task was lost", "exception": ValueError("x")})

    asyncio.run(story())
    assert [one.getMessage() for one in caplog.records] == ["a task was lost"]

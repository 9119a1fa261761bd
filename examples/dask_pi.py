"""Dask as two roles: a head, which is the scheduler and asks for the work, and workers that do it.

    muster run --role head --role worker:4 --until head -- python examples/dask_pi.py

Needs distributed. All begin once all have started, the head says when the work is done, and with it ends the job.
"""

import asyncio
import logging
import os
import random
import socket
from collections import Counter

from distributed import Client, Scheduler, Worker, get_worker

CHUNKS, SAMPLES = 64, 200_000


def hits(seed: int) -> tuple[str, int]:
    """Which worker this ran on, and how many of the samples fell into the circle."""
    draw = random.Random(seed).random
    return get_worker().name, sum(draw() ** 2 + draw() ** 2 < 1 for _ in range(SAMPLES))


async def head(address: str, port: int, workers: int) -> None:
    """Schedule, ask, and say what came of it."""
    async with (
        Scheduler(host=address, port=port, dashboard=False) as scheduler,
        Client(scheduler.address, asynchronous=True) as client,
    ):
        await client.wait_for_workers(workers)
        found = await client.gather(client.map(hits, range(CHUNKS)))
    done = Counter(name for name, _ in found)
    print(f"{len(done)} of {workers} workers did {CHUNKS} chunks: {dict(sorted(done.items()))}")
    print(f"pi is about {4 * sum(count for _, count in found) / (CHUNKS * SAMPLES):.4f}")


async def work(address: str, port: int, name: str) -> None:
    """Do what the head asks for, until it goes."""
    host = socket.gethostbyname(socket.gethostname())
    async with Worker(f"tcp://{address}:{port}", host=host, name=name, nthreads=1, dashboard=False) as worker:
        await worker.finished()


def main() -> None:
    logging.getLogger("distributed").setLevel(logging.ERROR)
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if os.environ["MUSTER_ROLE"] == "head":
        asyncio.run(head(address, port, int(os.environ["WORLD_SIZE"]) - 1))
    else:
        asyncio.run(work(address, port, f"worker-{os.environ['MUSTER_ROLE_RANK']}"))


if __name__ == "__main__":
    main()

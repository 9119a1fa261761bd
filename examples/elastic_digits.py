"""Training on scikit-learn's digits while workers come and go: rank 0 hands out the work, the others help.

    muster run --elastic 4:4 --name digits -- python examples/elastic_digits.py --epochs 300 --pause 0.2
    muster scale digits 2 --force   # from another terminal, and later 6, or whatever there is room for

Needs numpy and scikit-learn. Rank 0 keeps the weights; it is the last that a shrinking job loses. For every batch it
sends each helper the weights and a share of the samples, and adds up the gradients that come back. The share of one
that went away meanwhile is done by those who remain; who comes is given work from the next epoch on. So each epoch is
made of every sample exactly once, whoever helps. Should rank 0 fail, its successor begins anew.
"""

import argparse
import json
import os
import queue
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from train_digits import PATIENCE_SECONDS, Network, connect

BATCH, RATE, TESTS = 96, 0.3, 360
NOTHING = np.empty(0)
HEADER, MOST_NUMBERS = struct.Struct("!II"), 1 << 20  # of a message: how many numbers of each kind follow


def send(link: socket.socket, reals: np.ndarray, integers: np.ndarray = NOTHING) -> bool:
    header = HEADER.pack(len(reals), len(integers))
    link.sendall(header + reals.astype("<f8").tobytes() + integers.astype("<i8").tobytes())
    return True


def receive(link: socket.socket, *expected: int) -> tuple[np.ndarray, np.ndarray]:
    """What the other side sent, or OSError if it is gone, silent for too long, or no worker of ours."""
    lengths = HEADER.unpack(exactly(link, HEADER.size))
    if max(lengths) > MOST_NUMBERS or (expected and lengths != expected):
        raise ConnectionError("this is no message of ours")
    return np.frombuffer(exactly(link, 8 * lengths[0]), "<f8"), np.frombuffer(exactly(link, 8 * lengths[1]), "<i8")


def exactly(link: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        if not (piece := link.recv(length - len(data))):
            raise ConnectionError("the other side went away")
        data += piece
    return bytes(data)


def world() -> tuple[int, int]:
    """How many workers there should be, and how many times that has been another number."""
    if "MUSTER_WORLD" not in os.environ:
        return int(os.environ.get("WORLD_SIZE", "1")), 1
    while True:
        try:
            now = json.loads(Path(os.environ["MUSTER_WORLD"]).read_text())
            return now["size"], now["epoch"]
        except (FileNotFoundError, ValueError):  # it is just being replaced
            time.sleep(0.01)


def work(network: Network, x: np.ndarray, y: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """The summed gradient of the samples, then their summed loss and their number."""
    loss, gradient = network.gradient(x[samples], y[samples])
    return np.concatenate([gradient, [loss, len(samples)]])


class Helpers:
    """Rank 0's connections to the other workers, by rank."""

    def __init__(self, address: str, port: int) -> None:
        self.links: dict[int, socket.socket] = {}
        self.newcomers: queue.Queue[tuple[int, socket.socket]] = queue.Queue()
        server = socket.create_server((address, port))
        threading.Thread(target=self.welcome, args=(server,), daemon=True).start()

    def welcome(self, server: socket.socket) -> None:
        while True:
            link, _ = server.accept()
            link.settimeout(PATIENCE_SECONDS)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                self.newcomers.put((int(receive(link, 0, 1)[1][0]), link))
            except OSError:
                link.close()

    def gather(self, size: int, patience: float = 0.0) -> None:
        """Let in those who have come, or wait until all have; let go those who are no part of the world any more."""
        deadline = time.monotonic() + patience
        while not self.newcomers.empty() or (len(self.links) < size - 1 and time.monotonic() < deadline):
            with suppress(queue.Empty):
                rank, link = self.newcomers.get(timeout=0.1)
                self.lose(rank)  # who had this rank before
                self.links[rank] = link
        for rank in [rank for rank in self.links if not 0 < rank < size]:
            self.lose(rank)

    def lose(self, rank: int) -> None:
        if rank in self.links:
            self.links.pop(rank).close()

    def attempt(self, action: Callable, rank: int, *arguments: np.ndarray | int):
        """Send to a worker, or receive from it; None if that has failed, and the worker is lost."""
        try:
            return action(self.links[rank], *arguments)
        except OSError:
            self.lose(rank)

    def work(self, network: Network, x: np.ndarray, y: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """The same, by all together. A share counts when its whole answer is there, and else is handed out again."""
        total = np.zeros(len(network.flat) + 2)
        while len(samples):
            mine, *others = np.array_split(samples, 1 + len(self.links))
            shares = dict(zip(self.links, others, strict=True))
            asked = [rank for rank in shares if self.attempt(send, rank, network.flat, shares[rank])]
            total += work(network, x, y, mine)
            for rank in asked:
                if answer := self.attempt(receive, rank, len(total), 0):
                    total += answer[0]
                    del shares[rank]
            samples = np.concatenate([samples[:0], *shares.values()])
        return total

    def dismiss(self) -> None:
        """Tell all that it is over, also those who are still on their way."""
        told: set[int] = set()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not told.issuperset(range(1, size := world()[0])) and time.monotonic() < deadline:
            self.gather(size)
            told.update(rank for rank in list(self.links) if rank not in told and self.attempt(send, rank, NOTHING))
            time.sleep(0.01)


def lead(helpers: Helpers, x: np.ndarray, y: np.ndarray, options: argparse.Namespace) -> float:
    """Rank 0: train; the accuracy in the end."""
    test_x, test_y, x, y = x[:TESTS], y[:TESTS], x[TESTS:], y[TESTS:]
    network = Network(x.shape[1], 10)
    helpers.gather(world()[0], PATIENCE_SECONDS)
    epoch, accuracy, worlds = 0, 0.0, 0
    while epoch < options.epochs or worlds < options.worlds:
        epoch += 1
        size, number = world()
        helpers.gather(size)
        order = np.random.default_rng(epoch).permutation(len(y))
        loss = done = 0.0
        for start in range(0, len(order), BATCH):
            total = helpers.work(network, x, y, order[start : start + BATCH])
            network.flat -= RATE * total[:-2] / total[-1]
            loss, done = loss + total[-2], done + total[-1]
        accuracy = float((network.forward(test_x)[1].argmax(axis=1) == test_y).mean())
        workers = 1 + len(helpers.links)
        print(f"epoch {epoch}: {workers} workers, loss {loss / done:.4f}, accuracy {accuracy:.3f}, samples {done:.0f}")
        worlds = number if workers == size else worlds  # a size counts when all were there
        time.sleep(options.pause)
    helpers.dismiss()
    return accuracy


def help_out(rank: int, address: str, port: int, x: np.ndarray, y: np.ndarray) -> None:
    """Any other rank: do what one is asked for until it is over, or one is no part of the world any more."""
    network = Network(x.shape[1], 10)
    while rank < world()[0]:
        with connect(address, port) as link:
            try:
                send(link, NOTHING, np.array([rank]))
                while len((task := receive(link))[0]):
                    network.flat[:], samples = task
                    send(link, work(network, x[TESTS:], y[TESTS:], samples))
            except OSError:
                continue  # rank 0 has gone, or has given us up; it may take us again
            return


def main() -> None:
    parser = argparse.ArgumentParser(description="Data-parallel training whose workers come and go.")
    parser.add_argument("--epochs", type=int, default=20, help="train for so many")
    parser.add_argument("--worlds", type=int, default=1, help="and on until so many sizes have had an epoch")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each epoch, to watch it")
    options = parser.parse_args()
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(y))
    x, y = x[order] / 16.0, y[order]
    rank = int(os.environ.get("RANK", "0"))
    address, port = os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29500"))
    if rank > 0:
        help_out(rank, address, port, x, y)
    elif lead(Helpers(address, port), x, y, options) < 0.9:
        sys.exit("training went wrong")


if __name__ == "__main__":
    main()

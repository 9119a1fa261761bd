"""Data-parallel training on scikit-learn's digits: every worker learns from its share, gradients go round a ring.

    muster run --workers 4 -- python examples/train_digits.py

Needs numpy and scikit-learn. Workers find each other by host name: that of worker 0 is `MASTER_ADDR`, and those of the
others have their ranks in the place of the 0. Each checks at the end that all of them hold bit-identical weights.
"""

import hashlib
import os
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sklearn.datasets import load_digits

EPOCHS = int(os.environ.get("EPOCHS", "12"))
BATCH = 32
RATE = 0.3
HIDDEN = 64
PATIENCE_SECONDS = 60  # for the neighbours to appear


class Ring:
    """The workers in a circle: each sends to the next and receives from the one before."""

    def __init__(self, first: str, rank: int, size: int, port: int) -> None:
        self.rank, self.size = rank, size
        self.sender = ThreadPoolExecutor(1)
        if size == 1:
            return
        server = socket.create_server((host(first, rank), port))
        server.settimeout(PATIENCE_SECONDS)
        self.next = connect(host(first, (rank + 1) % size), port)
        self.previous, _ = server.accept()
        self.previous.settimeout(PATIENCE_SECONDS)
        for link in (self.next, self.previous):
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def pass_on(self, data: bytes) -> bytes:
        """Send to the next worker what the one before receives, and the other way round, at the same time."""
        sent = self.sender.submit(self.next.sendall, data)
        received = bytearray()
        while len(received) < len(data):
            piece = self.previous.recv(len(data) - len(received))
            if not piece:
                sys.exit(f"worker {(self.rank - 1) % self.size} went away")
            received += piece
        sent.result()
        return bytes(received)

    def sum(self, values: np.ndarray) -> np.ndarray:
        """The sum over all workers; each part is added up in one order and then copied, so all get the same bits."""
        if self.size == 1:
            return values
        parts = np.pad(values, (0, -len(values) % self.size)).reshape(self.size, -1)
        for step in range(self.size - 1):  # each part travels once round, growing
            out, into = (self.rank - step) % self.size, (self.rank - step - 1) % self.size
            parts[into] += np.frombuffer(self.pass_on(parts[out].tobytes()))
        for step in range(self.size - 1):  # each finished part travels once more, copied
            out, into = (self.rank - step + 1) % self.size, (self.rank - step) % self.size
            parts[into] = np.frombuffer(self.pass_on(parts[out].tobytes()))
        return parts.reshape(-1)[: len(values)]

    def all_equal(self, digest: bytes) -> bool:
        """Whether every worker holds the same digest."""
        seen = digest
        same = True
        for _ in range(self.size - 1):
            seen = self.pass_on(seen)
            same = same and seen == digest
        return same


def host(first: str, rank: int) -> str:
    name, dot, domain = first.partition(".")
    return f"{name.removesuffix('0')}{rank}{dot}{domain}"


def connect(name: str, port: int) -> socket.socket:
    """A connection to a neighbour, which may not be there yet."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return socket.create_connection((name, port), timeout=PATIENCE_SECONDS)
        except OSError as error:
            if time.monotonic() > deadline:
                sys.exit(f"cannot reach {name}:{port}: {error}")
            time.sleep(0.05)


class Network:
    """One hidden layer; all weights are views into one flat vector, which is what the ring carries."""

    def __init__(self, inputs: int, outputs: int) -> None:
        shapes = [(inputs, HIDDEN), (HIDDEN,), (HIDDEN, outputs), (outputs,)]
        rng = np.random.default_rng(0)  # the same start on every worker
        self.flat = np.concatenate([(rng.standard_normal(shape) * 0.1).ravel() for shape in shapes])
        self.views = []
        start = 0
        for shape in shapes:
            end = start + int(np.prod(shape))
            self.views.append(self.flat[start:end].reshape(shape))
            start = end

    def forward(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        w1, b1, w2, b2 = self.views
        hidden = np.maximum(x @ w1 + b1, 0)
        scores = hidden @ w2 + b2
        scores -= scores.max(axis=1, keepdims=True)
        odds = np.exp(scores)
        return hidden, odds / odds.sum(axis=1, keepdims=True)

    def gradient(self, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
        """The summed loss of a batch and its gradient as a flat vector."""
        hidden, odds = self.forward(x)
        loss = -np.log(odds[np.arange(len(y)), y] + 1e-12).sum()
        error = odds.copy()
        error[np.arange(len(y)), y] -= 1
        back = (error @ self.views[2].T) * (hidden > 0)
        parts = [x.T @ back, back.sum(axis=0), hidden.T @ error, error.sum(axis=0)]
        return float(loss), np.concatenate([part.ravel() for part in parts])


def main() -> None:
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    ring = Ring(os.environ.get("MASTER_ADDR", ""), rank, size, int(os.environ.get("MASTER_PORT", "29500")))

    digits = load_digits()
    order = np.random.default_rng(1).permutation(len(digits.target))
    x, y = digits.data[order] / 16.0, digits.target[order]
    test_x, test_y, x, y = x[:360], y[:360], x[360:], y[360:]
    mine_x, mine_y = x[rank::size], y[rank::size]
    steps = -(-len(y) // (BATCH * size))

    network = Network(x.shape[1], 10)
    losses = []
    for epoch in range(EPOCHS):
        shuffle = np.random.default_rng(1000 * epoch + rank).permutation(len(mine_y))
        total = np.zeros(2)
        for step in range(steps):
            batch = shuffle[step * BATCH : (step + 1) * BATCH]
            loss, gradient = network.gradient(mine_x[batch], mine_y[batch])
            summed = ring.sum(np.concatenate([gradient, [loss, len(batch)]]))
            network.flat -= RATE * summed[:-2] / summed[-1]
            total += summed[-2:]
        losses.append(total[0] / total[1])
        if rank == 0:
            print(f"epoch {epoch + 1:2d}  loss {losses[-1]:.4f}", flush=True)

    accuracy = float((network.forward(test_x)[1].argmax(axis=1) == test_y).mean())
    digest = hashlib.sha256(network.flat.tobytes()).digest()
    same = ring.all_equal(digest)
    verdict = "bit-identical on all workers" if same else "DIFFERENT on some worker"
    print(f"accuracy {accuracy:.3f}  weights {digest.hex()[:12]} {verdict}", flush=True)
    if not (same and accuracy > 0.9 and losses[-1] < losses[0]):
        sys.exit("training went wrong")


if __name__ == "__main__":
    main()

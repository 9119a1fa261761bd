"""The same training with PyTorch: DistributedDataParallel over gloo, started with no flags.

    pip install torch scikit-learn
    muster run --workers 4 -- python examples/train_torch.py

`RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT` are in the environment, which is all that torch asks for.
"""

import hashlib
import os
import sys

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn

EPOCHS = int(os.environ.get("EPOCHS", "8"))
BATCH = 32


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()

    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(1))
    x = torch.tensor(digits.data, dtype=torch.float32)[order] / 16
    y = torch.tensor(digits.target)[order]
    test_x, test_y, x, y = x[:360], y[:360], x[360:], y[360:]
    # The same number of samples on every worker, so that all take the same number of steps.
    share = len(y) // size
    mine_x, mine_y = x[rank * share : (rank + 1) * share], y[rank * share : (rank + 1) * share]

    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for epoch in range(EPOCHS):
        shuffle = torch.randperm(share, generator=torch.Generator().manual_seed(1000 * epoch + rank))
        total = torch.zeros(2)
        for batch in shuffle.split(BATCH):
            loss = nn.functional.cross_entropy(model(mine_x[batch]), mine_y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += torch.tensor([loss.item() * len(batch), len(batch)])
        dist.all_reduce(total)
        losses.append((total[0] / total[1]).item())
        if rank == 0:
            print(f"epoch {epoch + 1:2d}  loss {losses[-1]:.4f}", flush=True)

    accuracy = (model(test_x).argmax(dim=1) == test_y).float().mean().item()
    weights = torch.cat([parameter.detach().ravel() for parameter in model.parameters()])
    digest = hashlib.sha256(weights.numpy().tobytes()).hexdigest()
    digests: list[str | None] = [None] * size
    dist.all_gather_object(digests, digest)
    same = len(set(digests)) == 1
    verdict = "bit-identical on all workers" if same else "DIFFERENT on some worker"
    print(f"accuracy {accuracy:.3f}  weights {digest[:12]} {verdict}", flush=True)
    dist.destroy_process_group()
    if not (same and accuracy > 0.9 and losses[-1] < losses[0]):
        sys.exit("training went wrong")


if __name__ == "__main__":
    main()

"""Launchers of frameworks, by programs in their place that read and set the same."""

import re
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "frameworks.md"

# Reads the options and the hostfile that DeepSpeed's launcher reads, and sets for each process what that one sets
# (deepspeed/launcher/runner.py and launch.py of DeepSpeed 0.19).
DEEPSPEED = f"""#!{sys.executable}
import argparse, os, re, subprocess, sys

parser = argparse.ArgumentParser()
for option in ("hostfile", "node_rank", "master_addr", "master_port"):
    parser.add_argument("--" + option, required=True)
parser.add_argument("--no_ssh", action="store_true", required=True)
parser.add_argument("program")
asked = parser.parse_args()
slots = [int(re.fullmatch(r"(\\S+)\\s+slots=(\\d+)\\s*", line)[2]) for line in open(asked.hostfile)]
node = int(asked.node_rank)
common = {{"MASTER_ADDR": asked.master_addr, "MASTER_PORT": asked.master_port, "WORLD_SIZE": str(sum(slots))}}
started = []
for local in range(slots[node]):
    own = {{"RANK": str(sum(slots[:node]) + local), "LOCAL_RANK": str(local)}}
    started.append(subprocess.Popen([sys.executable, "-u", asked.program], env=os.environ | common | own))
sys.exit(max(one.wait() for one in started))
"""

# Meets the others at the address of rank 0, as torch.distributed does, and prints the sum of all ranks.
MEET = """
import os, socket, time

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    with socket.create_server(place) as server:
        others = [server.accept()[0] for _ in range(size - 1)]
    total = sum(int(one.recv(9)) for one in others)
    for one in others:
        one.sendall(b"%d" % total)
else:
    while True:
        try:
            link = socket.create_connection(place)
            break
        except OSError:
            time.sleep(0.1)
    link.sendall(b"%d" % rank)
    total = int(link.recv(9))
# One write: two ranks share a pipe, and `print` writes the end of a line apart where Python does not buffer.
os.write(1, b"rank %d of %d: %d\\n" % (rank, size, total))
"""


def test_the_launcher_of_deepspeed_starts_processes_in_each_worker(up, tmp_path):
    section = PAGE.read_text().partition("### The deepspeed launcher")[2]
    script = re.search(r"cat > launch.sh <<'END'\n(.*?)END\n", section, re.DOTALL)
    shown = re.search(r"```text\n(.*?)```", section, re.DOTALL)
    assert script is not None
    assert shown is not None
    (tmp_path / "launch.sh").write_text(script[1])
    (tmp_path / "ranks.py").write_text(MEET)
    launcher = tmp_path / "bin" / "deepspeed"
    launcher.parent.mkdir()
    launcher.write_text(DEEPSPEED)
    launcher.chmod(0o755)
    up.environment["PATH"] = f"{launcher.parent}:{up.env()['PATH']}"
    done = up("run", "--workers", "2", "--workdir", str(tmp_path), "--", "sh", "launch.sh")
    assert sorted(done.stdout.splitlines(keepends=True)) == shown[1].splitlines(keepends=True)

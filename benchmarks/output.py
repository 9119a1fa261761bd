"""How fast output arrives: `muster run > file` beside `cmd | cat > file`, and `muster logs` of what is kept.

python benchmarks/output.py [MEGABYTES]

First: how late a progress bar is seen on a terminal, from the write of a worker to our read of the terminal. With 0
megabytes this alone is measured.

Every way is measured without output too, and that is taken off: what is told is the time for the output alone. What has
arrived is compared with what was written; the first difference ends the benchmark.
"""

import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MUSTER = str(Path(sys.executable).parent / "muster")
# Within what a log keeps.
KEPT_MEGABYTES = 30
# A bar that says when it was drawn, in unlike intervals, so that no rhythm of a reader fits.
BAR = """
import os, random, sys, time
random.seed(os.environ["RANK"])
for number in range(200):
    sys.stderr.write(f"\\r{number / 2:5.1f}% at {time.time():.4f} of {os.environ['RANK']}")
    sys.stderr.flush()
    time.sleep(random.uniform(0.05, 0.25))
"""


def lines(size: int) -> bytes:
    """About a megabyte of lines of this many bytes."""
    return b"".join(b"%0*d\n" % (size - 1, number) for number in range((1 << 20) // size))


def seconds(command: str, home: str) -> float:
    environment = os.environ | {"MUSTER_HOME": home}
    environment.pop("KUBECONFIG", None)
    started = time.perf_counter()
    subprocess.run(["sh", "-c", command], env=environment, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


class Bench:
    """Files of lines in a directory, and the commands that bring them from one place to another."""

    def __init__(self, directory: Path, megabytes: int) -> None:
        self.directory = directory
        self.megabytes = megabytes
        self.out = directory / "out"
        self.home = str(directory / "home")

    def source(self, name: str, block: bytes, megabytes: int) -> Path:
        path = self.directory / name
        with path.open("wb") as file:
            for _ in range(megabytes):
                file.write(block)
        return path

    def measure(self, label: str, command: str, source: Path, *, workers: int = 1, check: bool = True) -> None:
        """`command` has `{file}` where the file goes; with an empty one it is what the way costs by itself."""
        empty = self.directory / "empty"
        empty.touch()
        alone = min(seconds(f"{command.format(file=empty)} > {self.out}", self.home) for _ in range(3))
        whole = seconds(f"{command.format(file=source)} > {self.out}", self.home)
        if check:
            subprocess.run(["cmp", str(self.out), str(source)], check=True)
        megabytes = source.stat().st_size * workers / 1e6
        print(
            f"{label:60} {megabytes:7.0f} MB {whole - alone:7.1f} s {megabytes / (whole - alone):7.0f} MB/s", flush=True
        )


def delays(command: str, home: str) -> list[float]:
    """How late each state of each bar comes to a terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        os.execve("/bin/sh", ["sh", "-c", command], environment | {"MUSTER_HOME": home, "TERM": "xterm"})
    came: dict[bytes, float] = {}
    text = b""
    while True:
        try:
            text = text[-100:] + os.read(terminal, 1 << 16)
        except OSError:  # the command has ended
            break
        now = time.time()
        for state in re.findall(rb"at (\d+\.\d{4} of \d)", text):
            came.setdefault(state, now - float(state.split()[0]))
    os.close(terminal)
    os.waitpid(pid, 0)
    return sorted(came.values())


def https_options(bench: Bench) -> str:
    """The options with which a command uses HTTPS: by the server's own kubeconfig it would use the home's socket."""
    copy = Path(bench.home, "https.kubeconfig")
    copy.write_bytes(Path(bench.home, "kubeconfig").read_bytes())
    copy.chmod(0o600)
    return f" --kubeconfig '{copy}'"


def measure_delays(bench: Bench, where: str, options: str = "") -> None:
    bar = bench.directory / "bar.py"
    bar.write_text(BAR)
    for workers in (1, 4):
        line = f"{MUSTER} run{options} --workers {workers} -- {shlex.quote(sys.executable)} '{bar}'"
        found = delays(line, bench.home)
        p50, p99 = (found[int(len(found) * part)] * 1000 for part in (0.5, 0.99))
        label = f"a progress bar of {workers} workers{where}"
        print(f"{label:60} {len(found):4} of {200 * workers} states, p50 {p50:.0f} ms, p99 {p99:.0f} ms", flush=True)


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), megabytes)
        measure_delays(bench, "")
        seconds(f"{MUSTER} up --detach --port 0", bench.home)
        try:
            measure_delays(bench, ", on a cluster")
            measure_delays(bench, ", on a cluster, over HTTPS", https_options(bench))
        finally:
            seconds(f"{MUSTER} down", bench.home)
        if not megabytes:
            return
        text = bench.source("lines of 100 bytes", lines(100), megabytes)
        short = bench.source("lines of 10 bytes", lines(10), megabytes // 10)
        binary = bench.source("no lines", os.urandom(1 << 20).replace(b"\n", b" "), megabytes)
        kept = bench.source("kept", lines(100), KEPT_MEGABYTES)
        for source in (text, short, binary):
            bench.measure(f"cat | cat > file, {source.name}", 'cat "{file}" | cat', source)
            bench.measure(f"muster run > file, {source.name}", MUSTER + ' run -- cat "{file}"', source)
        four = MUSTER + ' run --workers 4 -- cat "{file}"'
        bench.measure("muster run --workers 4 > file, lines of 100 bytes", four, text, workers=4, check=False)
        seconds(f"{MUSTER} up --detach --port 0", bench.home)
        try:
            for where, options in ((", on a cluster", ""), (", on a cluster, over HTTPS", https_options(bench))):
                bench.measure(
                    f"muster run > file, {text.name}{where}", f'{MUSTER} run{options} -- cat "{{file}}"', text
                )
            seconds(f"{MUSTER} run --name kept -- cat '{kept}' > {bench.out}", bench.home)
            seconds(f"{MUSTER} run --name nothing -- true", bench.home)
            alone = min(seconds(f"{MUSTER} logs nothing", bench.home) for _ in range(3))
            whole = seconds(f"{MUSTER} logs kept > {bench.out}", bench.home) - alone
            subprocess.run(["cmp", str(bench.out), str(kept)], check=True)
            size = kept.stat().st_size / 1e6
            print(f"{'muster logs of a finished job':60} {size:7.0f} MB {whole:7.1f} s {size / whole:7.0f} MB/s")
        finally:
            seconds(f"{MUSTER} down", bench.home)


if __name__ == "__main__":
    main()

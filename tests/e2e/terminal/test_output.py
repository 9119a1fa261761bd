"""What a job prints arrives as it was written, however much it is and however slowly it is read."""

import hashlib
import re
import signal
import subprocess
import time

import pytest

pytestmark = pytest.mark.timeout(600)

# All that a pipe would carry: binary data, lines longer than the log's own, empty ones, carriage returns, and no end.
# The argument is how often, about a megabyte each.
GENERATOR = """
import random, sys
random.seed(1)
binary = random.randbytes(1 << 20).replace(b"\\n", b"")
block = binary + b"\\n\\n\\n" + b"10%\\r20%\\r" * 1000 + b"\\n" + b"short\\n" * 5000
for number in range(int(sys.argv[1])):
    sys.stdout.buffer.write(b"%d\\n" % number + block)
sys.stdout.buffer.write(b"no end")
"""
# Beyond what the files of a log hold.
PLENTY = 70


@pytest.fixture
def generator(tmp_path):
    path = tmp_path / "generator.py"
    path.write_text(GENERATOR)
    return ["python", str(path), str(PLENTY)]


@pytest.fixture
def written(generator, muster):
    """What the generator writes into a plain pipe."""
    return subprocess.run(generator, env=muster.env(), capture_output=True, check=True, timeout=60).stdout


def popen(muster, *arguments, **how):
    return subprocess.Popen([muster.command, *arguments], env=muster.env(), stdin=subprocess.DEVNULL, bufsize=0, **how)


def test_a_file_gets_every_byte(muster, generator, written, tmp_path):
    with (tmp_path / "out").open("wb") as file:
        process = popen(muster, "run", "--", *generator, stdout=file)
        assert process.wait(timeout=300) == 0
    assert hashlib.sha256((tmp_path / "out").read_bytes()).digest() == hashlib.sha256(written).digest()


def test_a_reader_that_sleeps_gets_every_byte(muster, generator, written):
    process = popen(muster, "run", "--", *generator, stdout=subprocess.PIPE)
    assert process.stdout.read(1) == written[:1]
    time.sleep(5)  # the program has filled all that holds its output, and waits
    assert process.poll() is None
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert hashlib.sha256(written[:1] + out).digest() == hashlib.sha256(written).digest()


def test_ctrl_c_ends_what_nobody_reads(muster, generator):
    process = popen(muster, "run", "--", "yes", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        process.stdout.read(1)
        time.sleep(2)  # nothing can be printed any more
        process.send_signal(signal.SIGINT)
        while b"again to leave at once" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
    finally:
        process.kill()
        process.communicate()


def test_of_a_finished_job_it_is_said_what_has_gone(shared_up, generator, written):
    shared_up("run", "--detach", "--name", "much", "--", *generator)
    shared_up("wait", "much", timeout=300)
    done = subprocess.run(
        [shared_up.command, "logs", "much"], env=shared_up.env(), capture_output=True, check=True, timeout=60
    )
    [missing] = re.findall(rb"\[muster: (\d+) bytes are missing here\]\n", done.stderr)
    assert len(done.stdout) + int(missing) == len(written)
    assert written.endswith(done.stdout)


def test_on_a_cluster_of_all_a_follower_gets_every_byte(shared_up, generator, written, tmp_path):
    with (tmp_path / "out").open("wb") as file:
        process = popen(shared_up, "run", "--", *generator, stdout=file)
        assert process.wait(timeout=300) == 0
    assert hashlib.sha256((tmp_path / "out").read_bytes()).digest() == hashlib.sha256(written).digest()


def test_on_a_cluster_of_all_who_does_not_read_holds_up_no_job_and_learns_what_is_missing(
    shared_up, generator, written
):
    shared_up("run", "--detach", "--name", "slow", "--", "sh", "-c", f"sleep 3; {' '.join(generator)}")
    follower = popen(shared_up, "logs", "-f", "slow", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    shared_up("wait", "slow", timeout=300)
    out, err = follower.communicate(timeout=300)
    missing = sum(int(number) for number in re.findall(rb"\[muster: (\d+) bytes are missing here\]\n", err))
    assert len(out) + missing == len(written)
    assert follower.returncode == 0


@pytest.mark.parametrize(
    ("workers", "out", "err"),
    [
        (1, ["0 out", "", "0 end"], ["0 err"]),
        (2, ["[0] 0 out", "[0] ", "[0] 0 end", "[1] 1 out", "[1] ", "[1] 1 end"], ["[0] 0 err", "[1] 1 err"]),
    ],
)
def test_stderr_stays_apart_from_stdout(shared_up, workers, out, err):
    script = 'echo "$RANK out"; echo; echo "$RANK err" >&2; printf "$RANK end"'
    name = f"both-{workers}"
    run = shared_up("run", "--name", name, "--workers", str(workers), "--", "sh", "-c", script)
    logs = shared_up("logs", name)
    for done in (run, logs):
        assert sorted(done.stdout.splitlines()) == sorted(out)
        assert sorted(line for line in done.stderr.splitlines() if not line.startswith(f"{name}: ")) == err
    assert run.stdout.endswith("\n") == (workers > 1)

"""A machine loses its power and boots again. The service starts with it, and no job is lost.

A machine here is a set of namespaces of Linux. The kernel kills all of its processes with the first one, as a power
cut does. The next machine has the same disk, another boot ID, a boot clock that began again, and an empty /run and
/dev/shm.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.conftest import ROOT, Muster, closing
from tests.e2e.openinstallation import make_open_installation
from tests.e2e.typed_lines import require_code, run_line, wait_for
from tests.e2e.unixpeople import CAN_MAKE_USERS, WHY_NOT, new_people
from tests.systemd import install_stand_in

from muster.cluster.nodes.disk.leftovers import find_shared

NAMESPACES = ["--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--time"]
if os.geteuid():
    NAMESPACES += ["--user", "--map-root-user"]
UP_SECONDS = 20
# Prepares the machine, starts what is enabled, and waits for whatever ends, as the first process of a machine does.
INIT = """
import os, pathlib, subprocess, sys, time

disk = pathlib.Path(sys.argv[1])
if (disk / "units").exists():
    subprocess.run(["mount", "--bind", disk / "units", "/etc/systemd/system"], check=True)
for empty in ("/run", "/dev/shm"):
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", empty], check=True)
# Linux lets a container mount /proc only if the machine has one that no other mount covers.
pathlib.Path("/run/proc").mkdir()
subprocess.run(["mount", "-t", "proc", "proc", "/run/proc"], check=True)
subprocess.run(["mount", "--bind", disk / "boot_id", "/proc/sys/kernel/random/boot_id"], check=True)
pathlib.Path("/run/systemd/system").mkdir(parents=True)
pathlib.Path("/run/user/0").mkdir(parents=True, mode=0o700)
(disk / "main").unlink(missing_ok=True)
if (disk / "enabled").exists():
    subprocess.run(["systemctl", "start", "muster.service"], check=True)
(disk / "booted").touch()
while True:
    try:
        os.wait()
    except ChildProcessError:
        time.sleep(0.1)
"""


def can_boot() -> bool:
    """Return whether this user may make such machines here."""
    command = ["unshare", *NAMESPACES, "--boottime=-1", "sh", "-c", "mount -t tmpfs tmpfs /run"]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(not can_boot(), reason="this user cannot make the namespaces of a machine"),
]


class Machine:
    """A machine with a disk, and users who type commands there while it is on.

    programs: where `muster` is. environ: what it needs beside that. The directory `units` of the disk, if there is one,
    is that of the machine's units.
    """

    def __init__(self, disk: Path, muster: Muster, programs: str, **environ: str) -> None:
        self.disk = disk
        self.home = muster.home
        self._left = muster.processes
        self._process: subprocess.Popen[bytes] | None = None
        # What systemd gives to the services of a user.
        path = os.pathsep.join([str(disk), programs, os.defpath])
        self._environ = {"PATH": path, "HOME": str(disk / "home"), "XDG_RUNTIME_DIR": "/run/user/0", **environ}
        install_stand_in(disk, *(["units/muster-*.service"] if (disk / "units").exists() else []))
        (disk / "home").mkdir(mode=0o700)

    def boot(self) -> None:
        """Switch the machine on; return once it has started what is enabled."""
        (self.disk / "boot_id").write_text(f"{uuid.uuid4()}\n")
        (self.disk / "booted").unlink(missing_ok=True)
        age = int(time.clock_gettime(time.CLOCK_BOOTTIME)) - UP_SECONDS
        clocks = [f"--boottime=-{age}", f"--monotonic=-{int(time.monotonic()) - UP_SECONDS}"]
        command = ["unshare", *NAMESPACES, *clocks, sys.executable, "-c", INIT, str(self.disk)]
        self._process = subprocess.Popen(command, env=self._environ, cwd=ROOT, stdin=subprocess.DEVNULL)
        wait_for(lambda: "on" if (self.disk / "booted").exists() else "", "on")

    def lose_power(self) -> None:
        """End all processes at once; none of them can write anything any more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        while self._left():
            time.sleep(0.05)

    def type(self, line: str, code: int = 0, user: str = "") -> str:
        """Type a line on the machine, as its owner or another user; return what it prints."""
        command = ["su", user, "--command", f"cd && {line}"] if user else ["bash", "-c", line]
        assert self._process is not None
        [first] = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        enter = ["nsenter", "--target", first, "--all", f"--wd={'/' if user else self.disk}"]
        done = run_line([*enter, *command], env=self._environ | {"MUSTER_DEFAULT_CPUS": "0"})
        return require_code(done, line, code)

    def wait_for_starts(self, number: int) -> None:
        """Wait until workers have started so often."""
        deadline = time.monotonic() + 100
        while len(seen := read(self.disk / "starts").splitlines()) < number:
            assert time.monotonic() < deadline, seen
            time.sleep(0.05)

    def states(self) -> dict[str, str]:
        """Return the state of each job, as a user reads it."""
        rows = (line.split() for line in self.type("muster ps --all").splitlines()[1:])
        return {row[0]: row[1] for row in rows}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with closing(tmp_path / "home" / ".muster") as muster:
        environ = {name: value for name, value in os.environ.items() if name == "PYTHONPATH"}
        machine = Machine(tmp_path, muster, str(Path(sys.executable).parent), **environ)
        try:
            machine.boot()
            yield machine
        finally:
            machine.lose_power()


# Writes its checkpoint before it says that it starts, so that whoever has started once finds one.
TRAIN = """
start=$(echo $RANK $MUSTER_ATTEMPT $(cat $MUSTER_STATE/step.$RANK))
echo 7 > $MUSTER_STATE/step.$RANK
echo $start >> starts
until test -e enough; do sleep 0.1; done
echo trained
"""
TUNE = "echo $MUSTER_INDEX >> trials; until test $MUSTER_INDEX = 0 || test -e enough; do sleep 0.1; done"
TRAIN_AS_USER = """
cat $MUSTER_STATE/step
echo 7 > $MUSTER_STATE/step
id -un >> starts
until test -e enough; do sleep 0.1; done
"""
# Says that a lost pod is a failure.
STRICT = """
apiVersion: batch/v1
kind: Job
metadata: {name: strict}
spec:
  backoffLimit: 0
  podFailurePolicy: {rules: [{action: Count, onPodConditions: [{type: DisruptionTarget}]}]}
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: none, command: [sleep, "1000"]}]
"""
# Submits jobs until the power is cut, and writes down which were acknowledged.
SUBMIT = """
for number in $(seq 1000); do
    muster run --detach --name last-$number -- true && echo last-$number >> acknowledged
done
"""
DETACHED = "muster run --detach --retries 0 --cpus 1 --name"


def test_after_a_reboot_waiting_jobs_start_and_running_jobs_start_again(machine: Machine) -> None:
    disk = machine.disk
    machine.type("muster service install --port 0 --nodes process,cpu=3,memory=8Gi")
    machine.type("muster run --name done -- echo kept")
    for name, script in (("train.sh", TRAIN), ("tune.sh", TUNE), ("strict.yaml", STRICT), ("submit.sh", SUBMIT)):
        (disk / name).write_text(script)
    machine.type(f"{DETACHED} train --workers 2 -- sh train.sh")
    machine.type(f"{DETACHED} tune --array 0-1%1 -- sh tune.sh")
    machine.type("muster apply -f strict.yaml")
    wait_for(lambda: read(disk / "trials"), "1")
    machine.wait_for_starts(2)
    machine.type(f"{DETACHED} waiting --cpus 2 -- true")
    machine.type(f"{DETACHED} held -- true && muster hold held")
    machine.type(f"{DETACHED} next --after train:ok -- true")
    machine.type("muster run --cron '0 3 1 1 *' --name yearly -- true")
    yearly = machine.type("muster why yearly")
    before = machine.states()
    assert before == {
        "done": "Completed",
        "train": "Running",
        "tune": "Running",
        "strict": "Running",
        "waiting": "Queued",
        "held": "Held",
        "next": "Held",
    }
    machine.type("sh submit.sh > submitted 2>&1 < /dev/null &")
    wait_for(lambda: read(disk / "acknowledged"), "last-3")

    machine.lose_power()
    machine.boot()
    machine.wait_for_starts(4)
    assert sorted(read(disk / "starts").splitlines()) == ["0 0", "0 1 7", "1 0", "1 1 7"]
    wait_for(lambda: read(disk / "trials"), "0\n1\n1\n")
    after = machine.states()
    for name in read(disk / "acknowledged").split():
        assert name in after, f"{name} was acknowledged"
    wait_for(lambda: machine.states()["strict"], "Failed")
    assert {name: machine.states()[name] for name in before} == before | {"strict": "Failed"}
    assert machine.type("muster logs done") == "kept\n"
    assert "interrupted by the cluster once" in machine.type("muster why train")
    assert machine.type("muster why yearly") == yearly

    (disk / "enough").touch()
    machine.type("muster release held")
    machine.type("muster wait train tune waiting held next")
    assert read(disk / "trials") == "0\n1\n1\n"
    assert machine.type("muster logs train") == "[0] trained\n[1] trained\n"
    ended = machine.states()
    assert {ended[name] for name in read(disk / "acknowledged").split()} == {"Completed"}
    machine.type("muster down")


def test_power_that_fails_again_and_again(machine: Machine) -> None:
    """The power fails again before the server serves, and as soon as one worker has started again."""
    disk = machine.disk
    machine.type("muster service install --port 0 --nodes process,cpu=3,memory=8Gi")
    (disk / "train.sh").write_text(TRAIN)
    machine.type(f"{DETACHED} train --workers 2 -- sh train.sh")
    machine.wait_for_starts(2)
    for more in (0, 1, 0, 2):
        started = len(read(disk / "starts").splitlines())
        machine.lose_power()
        machine.boot()
        machine.wait_for_starts(started + more)
    (disk / "enough").touch()
    machine.type("muster wait train")
    assert machine.type("muster logs train") == "[0] trained\n[1] trained\n"
    first, second, *later = read(disk / "starts").splitlines()
    assert {first, second} == {"0 0", "1 0"}
    assert all(line.endswith(" 7") for line in later if not line.startswith("1 0")), later
    machine.type("muster down")


@pytest.fixture
def shared_machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine with the user muster-fay, whose programs everybody can run."""
    place = Path(tempfile.mkdtemp(prefix="muster-test-", dir="/var/lib"))
    place.chmod(0o755)
    (tmp_path / "units").mkdir()
    with closing(tmp_path / "home" / ".muster") as muster:
        machine = Machine(tmp_path, muster, make_open_installation(place))
        try:
            with new_people(Path("/run/muster/muster.sock"), "muster-fay"):
                machine.boot()
                yield machine
                machine.lose_power()
        finally:
            machine.lose_power()
            shutil.rmtree(place)
            shutil.rmtree(find_shared(muster.home), ignore_errors=True)


@pytest.mark.skipif(not CAN_MAKE_USERS, reason=WHY_NOT)
@pytest.mark.skipif(not Path("/etc/systemd/system").is_dir(), reason="systemd is not here")
def test_a_server_of_root_starts_with_the_machine(shared_machine: Machine) -> None:
    """Its socket goes with /run, and its users' jobs run as these users again."""
    machine = shared_machine
    machine.type(f"muster service install --system --data {machine.home} --port 0 --nodes process,cpu=2,memory=8Gi")
    home = Path("/home/muster-fay")
    machine.type(f"{DETACHED} train -- sh -c '{TRAIN_AS_USER}'", user="muster-fay")
    wait_for(lambda: read(home / "starts"), "muster-fay")
    machine.type(f"{DETACHED} waiting --cpus 2 -- sh -c 'id -un > ran'", user="muster-fay")

    machine.lose_power()
    machine.boot()
    wait_for(lambda: read(home / "starts"), "muster-fay\nmuster-fay\n")
    assert "interrupted by the cluster once" in machine.type("muster why train", user="muster-fay")
    machine.type("touch enough; muster wait train waiting", user="muster-fay")
    assert machine.type("muster logs train", user="muster-fay") == "7\n"
    assert (read(home / "ran"), (home / "ran").owner()) == ("muster-fay\n", "muster-fay")
    machine.type(f"muster down --yes --data {machine.home}")


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""

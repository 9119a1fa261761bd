"""What processes use, read from directories that look like the kernel's."""

import os
import subprocess
import sys
import time

import pytest

from muster.cluster.nodeconnection import Reading
from muster.cluster.nodes.machine.consumption import Metered, list_trees, read_usage

TICK, PAGE = 1 / os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


def process(proc, pid, parent, *, ticks=(0, 0, 0, 0), pages=0, name="x"):
    fields = [pid, f"({name})", "S", parent, *[0] * 9, *ticks, *[0] * 6, pages, 0]
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "stat").write_text(" ".join(map(str, fields)))


@pytest.fixture
def proc(tmp_path):
    process(tmp_path, 1, 0, ticks=(9, 9, 9, 9), pages=9)
    process(tmp_path, 10, 1, ticks=(1, 2, 3, 4), pages=1)
    process(tmp_path, 11, 10, ticks=(100, 0, 0, 0), pages=5, name="a ) (b")
    process(tmp_path, 12, 11, ticks=(0, 50, 0, 0), pages=6)
    process(tmp_path, 20, 1, pages=2)
    (tmp_path / "meminfo").write_text("")
    (tmp_path / "30").mkdir()  # one that ends at this moment
    return tmp_path


def test_a_container_is_the_tree_below_its_shim_with_the_children_that_it_has_waited_for(proc):
    found = read_usage({("u", "a"): Metered(10), ("u", "b"): Metered(20), ("v", "a"): Metered(99)}, proc=proc)
    assert found == {("u", "a"): Reading(160 * TICK, 11 * PAGE), ("u", "b"): Reading(0.0, 0)}


def test_the_processes_of_a_container_are_those_below_its_shim(proc):
    found = list_trees({("u", "a"): Metered(10), ("u", "b"): Metered(20), ("v", "a"): Metered(99)}, proc)
    assert found == {("u", "a"): {11, 12}, ("u", "b"): set(), ("v", "a"): set()}


def test_a_cgroup_says_it_where_there_is_one(proc, tmp_path):
    group = tmp_path / "cgroup"
    group.mkdir()
    (group / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    (group / "memory.current").write_text("4096\n")
    missing = tmp_path / "gone"
    found = read_usage({("u", "a"): Metered(10, (group,)), ("u", "b"): Metered(20, (missing,))}, proc=proc)
    assert found == {("u", "a"): Reading(1.5, 4096), ("u", "b"): Reading(0.0, 0)}


def test_the_cgroups_of_v1_say_it_together(proc, tmp_path):
    memory, cpu = tmp_path / "memory", tmp_path / "cpu"
    memory.mkdir()
    cpu.mkdir()
    (memory / "memory.usage_in_bytes").write_text("4096\n")
    (cpu / "cpu.stat").write_text("nr_periods 0\n")
    (cpu / "cpuacct.usage").write_text("1500000000\n")
    found = read_usage({("u", "a"): Metered(10, (memory, cpu)), ("u", "b"): Metered(20, (memory,))}, proc=proc)
    assert found == {("u", "a"): Reading(1.5, 4096), ("u", "b"): Reading(0.0, 0)}


def share(proc, pid, pss, swapped=0, shared=0):
    sizes = {"Rss": 9999, "Pss": pss, "Pss_Anon": 7, "Pss_Shmem": shared, "SwapPss": swapped}
    lines = "".join(f"{name}: {size} kB\n" for name, size in sizes.items())
    (proc / str(pid) / "smaps_rollup").write_text(f"00-ff ---p 00 00:00 0 [rollup]\n{lines}")


@pytest.mark.parametrize(
    ("threshold", "shared", "memory"),
    [
        (0, 0, (70 + 64) * 1024),
        (0, 24, (70 + 40) * 1024),  # what processes map of the files counts once
        (0, 100, 70 * 1024),  # other shared memory, too
        (1 << 30, 0, 11 * PAGE + 64 * 1024),
    ],
)
def test_files_in_memory_count(proc, tmp_path, threshold, shared, memory):
    share(proc, 11, 50, shared=shared)
    share(proc, 12, 20)
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "file").write_bytes(bytes(64 * 1024))
    container = Metered(10, memory_volumes=(volume, tmp_path / "absent"))
    found = read_usage({("u", "a"): container}, {("u", "a"): threshold}, proc)
    assert found["u", "a"].memory_bytes == memory


@pytest.mark.parametrize(
    ("threshold", "swap", "memory"),
    [
        (11 * PAGE, (0, 0), 11 * PAGE),  # the sum, in which shared pages count twice
        (11 * PAGE - 1, (0, 0), 70 * 1024),
        (11 * PAGE, (8, 8), 11 * PAGE),  # no swap is in use
        (11 * PAGE, (8, 7), 70 * 1024),  # some of the swap may be the container's
    ],
)
def test_above_its_threshold_shared_pages_count_once(proc, threshold, swap, memory):
    share(proc, 11, 30, 5)
    share(proc, 12, 35)
    (proc / "meminfo").write_text("SwapCached: 3 kB\nSwapTotal: {} kB\nSwapFree: {} kB\n".format(*swap))
    found = read_usage({("u", "a"): Metered(10)}, {("u", "a"): threshold}, proc)
    assert found["u", "a"].memory_bytes == memory


@pytest.mark.parametrize(("name", "memory"), [("kthreadd", 0), ("bash", 11 * PAGE)])
def test_threads_of_the_kernel_are_not_read(proc, name, memory):
    process(proc, 2, 0, name=name)
    (proc / "2/task/2").mkdir(parents=True)
    (proc / "2/task/2/children").write_text("11 12 ")
    assert read_usage({("u", "a"): Metered(10)}, proc=proc)["u", "a"].memory_bytes == memory


def test_the_kernel_looks_as_it_is_read():
    parent = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE) as child:
        while not subprocess.run(["pgrep", "-P", str(child.pid)], check=False, capture_output=True).stdout:
            time.sleep(0.01)
        found = read_usage({("u", "a"): Metered(child.pid), ("u", "us"): Metered(os.getpid())})
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.close()
    assert found["u", "a"].memory_bytes > 0
    assert found["u", "us"].cpu_seconds > 0

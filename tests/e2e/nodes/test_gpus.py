"""GPUs that are played: shared by index, shown, and taken out when they are ill."""

import json
import time

import pytest


@pytest.fixture
def four(muster):
    """A cluster on whose node four GPUs are played."""
    muster("up", "--detach", "--port", "0", "--nodes", "process,gpus=4:fake")
    yield muster
    muster("down")


def seen(four):
    lines = [line.split() for line in four("top").stdout.splitlines()]
    return {words[1]: words[-2:] for words in lines if len(words) == 6 and words[2] == "Played-GPU"}


def test_a_gang_shares_them_by_index(four, tmp_path):
    script = "echo $CUDA_VISIBLE_DEVICES; until test -e $0; do sleep 0.1; done"
    gate = tmp_path / "gate"
    four("run", "--detach", "--name", "train", "-w", "2", "--gpus", "2", "--", "sh", "-c", script, str(gate))
    while len(four("logs", "train").stdout.splitlines()) < 2:
        time.sleep(0.5)
    shown = sorted(line.split()[1] for line in four("logs", "train").stdout.splitlines())
    assert shown == ["0,1", "2,3"]
    assert seen(four) == {str(number): ["Used", "default/train"] for number in range(4)}
    late = four("run", "--detach", "--name", "late", "--gpus", "1", "--", "sh", "-c", "echo got $CUDA_VISIBLE_DEVICES")
    assert late.stdout == "late\n"
    assert "nvidia.com/gpu" in four("why", "late").stdout
    gate.touch()
    assert four("wait", "train", "late").returncode == 0
    assert four("logs", "late").stdout.startswith("got ")
    assert seen(four) == {str(number): ["Free", "-"] for number in range(4)}


def test_one_that_is_ill_goes_to_no_job(four):
    [node] = four.home.glob("**/node-0")
    (node / "ill-gpus").write_text("1\n")
    while seen(four)["1"] != ["Ill", "-"]:
        time.sleep(0.5)
    there = json.loads(four("run", "--dry-run", "-o", "json", "--gpus", "4", "--", "true").stdout)
    assert there["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] == {
        "limits": {"nvidia.com/gpu": 4}
    }
    waits = "waits for 1 nvidia.com/gpu of node-0 (ill)"
    assert f"all {waits}\n" in four("run", "--detach", "--name", "all", "--gpus", "4", "--", "true").stderr
    while "> maximum capacity (3)" not in (why := four("why", "all").stdout):
        time.sleep(0.5)
    assert why.startswith(f"all: queued; it {waits}\n")
    assert waits in four("ps").stdout
    more = four("run", "--detach", "--gpus", "5", "--", "true").stderr
    assert "can never start: no node ever has 5 nvidia.com/gpu; the largest has 4" in more
    assert four("run", "--gpus", "3", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES").stdout == "0,2,3\n"


@pytest.mark.parametrize("options", [["--gpus", "0.5"], ["--role", "w:2,gpus=500m"]])
def test_a_fraction_is_refused_in_words(muster, options):
    refused = muster("run", *options, "--", "true", check=False)
    assert refused.returncode == 2
    assert "only whole GPUs can be requested; processes that share one run in one worker" in refused.stderr


HINT = "this job sees no GPU: a job gets GPUs by --gpus N (this is said once)"


def test_a_job_without_gpus_is_told_once_that_it_sees_none(four):
    assert HINT not in four("run", "--gpus", "1", "--", "true").stderr
    assert HINT in four("run", "--", "true").stderr
    assert HINT not in four("run", "--", "true").stderr


def test_gpus_of_an_earlier_start_are_gone(four):
    assert four("top").stdout.count("Played-GPU") == 4
    four("down", "--yes")
    four("up", "--detach", "--port", "0", "--nodes", "process")
    shown = four("top").stdout
    assert "GPU" not in shown


def test_the_use_of_gpus_is_shown_by_job_and_worker_and_kept(four):
    [node] = four.home.glob("**/node-0")
    (node / "gpu-use").write_text(f"0 50 {1 << 30}\n1 100 {2 << 30}\n2 0 0\n")
    four("run", "--detach", "--name", "train", "-w", "2", "--gpus", "1", "--", "sleep", "1000")
    four("run", "--detach", "--name", "plain", "--", "sleep", "1000")
    while " 0.50 " not in (shown := four("top", "train").stdout):
        time.sleep(1)
    header, *rows = [line.split() for line in shown.splitlines()]
    assert header[-4:] == ["GPU", "USED", "GPU", "MEMORY"]
    assert [(row[0], *row[-2:]) for row in rows] == [("0", "0.50", "1Gi"), ("1", "1.00", "2Gi")]
    wide = {line.split()[0]: line for line in four("ps", "-o", "wide").stdout.splitlines()}
    assert wide["train"].split()[-2:] == ["1.50", "3Gi"]
    assert wide["plain"].split()[-2:] == ["-", "-"]
    assert " 1.50 " in next(line for line in four("top").stdout.splitlines() if " train " in line)
    four("cancel", "train")
    four("wait", "train", check=False)
    [kept] = json.loads(four("history", "train", "-o", "json").stdout)
    assert kept["gpuMemoryBytes"] == 2 << 30
    assert kept["meanGpus"] > 0

"""What ran is told by the installed command, whatever became of the jobs, of the server and of its files."""

import csv
import json
import os
import select
import signal
import time

import pytest


def records(muster, *arguments):
    return json.loads(muster("history", "-o", "json", *arguments).stdout)


def kill(muster):
    process = int((muster.home / "lock").read_text())
    descriptor = os.pidfd_open(process)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    os.kill(process, signal.SIGKILL)
    assert poll.poll(20_000), "the server has ended"
    os.close(descriptor)


@pytest.mark.timeout(400)
def test_a_record_outlives_the_job_a_kill_and_the_home(muster, tmp_path):
    muster("up", "--detach", "--port", "0")
    evil = "printf '\x1b[31m'; exit 3"
    assert muster("run", "--name", "bad", "--", "sh", "-c", evil, check=False).returncode == 3
    time.sleep(1.1)  # records are in the order of their endings, to the second
    muster("run", "--name", "good", "--workers", "2", "--", "sh", "-c", "exit 0")
    kill(muster)  # what has ended was acknowledged
    muster("up", "--detach", "--port", "0")
    muster("cancel", "--delete", "bad")
    found = records(muster)
    assert [(one["name"], one["state"], one["exitCode"]) for one in found] == [
        ("bad", "Failed", 3), ("good", "Completed", 0),
    ]  # fmt: skip
    assert all(one["owner"] and one["nodes"] and one["queue"] == "default" for one in found)
    assert [one["name"] for one in records(muster, "--state", "failed")] == ["bad"]
    assert [one["name"] for one in records(muster, "g*", "--user", found[0]["owner"], "--since", "1h")] == ["good"]
    assert records(muster, "--until", "yesterday") == []
    shown = muster("history", "-o", "wide").stdout
    assert "\x1b" not in shown
    assert r"\x1b[31m" in shown
    rows = list(csv.DictReader(muster("history", "-o", "csv").stdout.splitlines()))
    assert [(row["name"], row["workers"]) for row in rows] == [("bad", "1"), ("good", "2")]
    assert "bad" not in muster("ps").stdout
    assert "bad" in muster("ps", "-a").stdout

    muster("backup", str(tmp_path / "running"))
    muster("down")
    muster("backup", str(tmp_path / "stopped"))
    for backup in ("running", "stopped"):
        muster("restore", "--force", str(tmp_path / backup))
        muster("up", "--detach", "--port", "0")
        assert records(muster) == found
        muster("down")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--since", "soon"], "is no moment"), (["--limit", "-1"], "--limit"), (["--state", "Running"], "--state"),
     (["a/b"], "is no name")],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_a_line(muster, arguments, said):
    refused = muster("history", *arguments, check=False)
    assert refused.returncode == 2
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr

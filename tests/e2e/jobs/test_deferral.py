"""Jobs that start later, from their options to their ends."""

import json
import os
import signal

import pytest

pytestmark = pytest.mark.timeout(240)


def submit(up, name, *options):
    command = ("sh", "-c", f"echo {name}; test {name} != bad")
    return up("run", "--detach", "--name", name, *options, "--", *command)


def rows(up):
    return {row["name"]: (row["state"], row["reason"]) for row in json.loads(up("ps", "--all", "-o", "json").stdout)}


def test_jobs_start_after_others_and_outlive_their_server(up):
    submit(up, "first", "--begin", "+1h")
    submit(up, "bad", "--after", "first")
    submit(up, "never", "--after", "first,bad")
    submit(up, "mend", "--after", "bad:fail", "--workers", "2")
    submit(up, "last", "--after", "never:any", "--after", "mend", "--array", "0-1")
    shown = rows(up)
    assert shown["first"][1].startswith("begins at ")
    assert shown["never"] == ("Held", "waits for first to complete, bad to complete")
    assert shown["last"] == ("Held", "waits for never to end, mend to complete")
    said = up("why", "mend").stdout
    assert "held: waits for bad to fail; start it now with: muster release mend" in said
    os.kill(int((up.home / "lock").read_text()), signal.SIGKILL)
    up("up", "--detach", "--port", "0")
    assert rows(up)["mend"] == ("Held", "waits for bad to fail")
    assert up("release", "first").stdout == "first released: it starts without waiting\n"
    up("wait", "last", "--timeout", "120s")
    shown = rows(up)
    assert {name: state for name, (state, _) in shown.items()} == {
        "first": "Completed", "bad": "Failed", "never": "Failed", "mend": "Completed", "last": "Completed",
    }  # fmt: skip
    assert shown["never"][1] == "it waits for bad to complete, and bad failed"
    assert up("logs", "never", check=False).stdout == ""


def test_what_can_never_start_is_refused(up):
    submit(up, "good")
    up("wait", "good", "--timeout", "60s")
    for options, complaint in {
        ("--after", "goof"): "--after goof: there is no job goof in namespace default; did you mean good?",
        ("--after", "good:fail"): "--after good:fail: good has completed already, so that the job never starts",
        ("--after", "good:often"): "'good:often': a job is waited for as good:ok, good:fail or good:any",
        ("--after", "self"): "--after self: the job would wait for itself",
        ("--begin", "2020-01-01"): "2020-01-01 is past",
        ("--begin", "noonish"): "'noonish' is no time to begin",
        ("--begin", "+2h", "--cron", "@daily"): "--cron and --begin exclude each other",
    }.items():
        refused = up("run", "--detach", "--name", "self", *options, "--", "true", check=False)
        assert refused.returncode != 0
        assert complaint in refused.stderr
    assert list(rows(up)) == ["good"]

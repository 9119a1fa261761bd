"""Parts of what a job printed, on the embedded cluster."""

import re

import pytest
from tests.e2e.conftest import Muster

pytestmark = pytest.mark.timeout(120)

SCRIPT = "for i in 1 2 3 4 5; do echo step $i of $RANK; done; echo oh >&2; printf unended"


def test_ranks_last_lines_times_and_patterns(up: Muster) -> None:
    up("run", "--name", "large", "--detach", "--cpus", "100000", "--", "true")
    unheard = up("logs", "large")
    waits = "large: there is no output yet; muster why large says what it waits for\n"
    assert (unheard.stdout, unheard.stderr) == ("", waits)
    up("cancel", "large")
    unstarted = up("logs", "large", "--rank", "0")
    never = "large: there is no output of that rank: it was not started, or its pods are gone\n"
    assert (unstarted.stdout, unstarted.stderr) == ("", never)
    up("run", "--name", "train", "--workers", "4", "--", "sh", "-c", SCRIPT)
    assert up("logs", "train", "--rank", "0,2-3", "--grep", "step [45]").stdout.splitlines() == [
        f"[{rank}] step {number} of {rank}" for rank in (0, 2, 3) for number in (4, 5)
    ]
    last = up("logs", "train", "--rank", "1", "--tail", "3")
    assert (last.stdout, last.stderr) == ("step 5 of 1\nunended", "oh\n")
    assert up("logs", "-f", "train", "--tail", "3", "--grep", "^step").stdout.count("step 5 of") == 4
    stamped = up("logs", "train", "--rank", "0", "--timestamps").stdout.splitlines()
    assert [re.sub(r"^\d{4}-\d\d-\d\dT[\d:.]+Z ", "", line) for line in stamped] == [
        *(f"step {number} of 0" for number in range(1, 6)),
        "unended",
    ]
    assert all(line.startswith("20") for line in stamped)
    assert up("logs", "train", "--since", "1h").stdout.count("step") == 20
    assert up("logs", "train", "--since", "2099-01-01").stdout == ""
    for arguments, words in (
        (("--rank", "0-9"), "train has no worker 9: its ranks are 0 to 3"),
        (("--rank", "3-1"), "the first rank of it is higher than the last"),
        (("--rank", "1,,2"), "train has no worker : its ranks"),
        (("--grep", "(a"), "missing )"),
        (("--since", "soon"), "is no moment"),
        (("--tail", "-1"), "-1"),
    ):
        refused = up("logs", "train", *arguments, check=False)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert words in refused.stderr

"""What a sweep is submitted as, and what a trial then finds."""

import os
import subprocess

import msgspec
import pytest

from muster.actions.submission.gang import Gang
from muster.actions.submission.manifests import make_job
from muster.actions.submission.sweep import Sweep
from muster.api.batch import COMPLETION_INDEX, JOB
from muster.api.defaults import DEFAULTS
from muster.api.validation.jobs.job import validate_template_spec
from muster.cluster.nodes.container.environment import expand

GRID = ["lr=0.1,0 $(A)'", "depth=2,3"]


def manifest(array, grid=(), command=("x",), **more):
    return make_job(Gang("tune", command, sweep=Sweep.parse(array, grid), **more))


@pytest.mark.parametrize(
    ("array", "grid", "trials", "at_once"),
    [
        ("0-9", (), 10, 10),
        ("0-99%8", (), 100, 8),
        ("1,3,5%99", (), 3, 3),
        ("", GRID, 4, 4),
        ("%3", GRID, 4, 3),
        ("1-3:2%1", GRID, 2, 1),
    ],
)
def test_a_sweep_is_one_job_with_an_index_for_each_trial(array, grid, trials, at_once):
    spec = manifest(array, grid)["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (trials, at_once, "Indexed")
    assert spec["backoffLimitPerIndex"] == 0  # a trial that fails takes no other along
    assert "backoffLimit" not in spec
    assert "subdomain" not in spec["template"]["spec"]


def test_it_is_no_gang_and_says_which_trials_it_has():
    annotations = manifest("5-9%2", queue="q")["metadata"]["annotations"]
    assert annotations == {
        "muster.dev/gang": "false",
        "muster.dev/array": "5-9%2",
        "kueue.x-k8s.io/job-min-parallelism": "1",
    }
    assert manifest("%1", ["a=1,2"])["metadata"]["annotations"] == {
        "muster.dev/gang": "false",
        "muster.dev/array": "0-1%1",
        "muster.dev/grid": '{"a":["1","2"]}',
    }


@pytest.mark.parametrize(("array", "grid"), [("0-99999", ()), ("7%3", ()), ("", GRID)])
def test_servers_take_it(array, grid):
    whole = manifest(array, grid)
    DEFAULTS[JOB.resource](whole)
    assert validate_template_spec("spec", JOB.decode(msgspec.json.encode(whole)).spec) == []


def test_plain_indexes_come_without_a_shell():
    [container] = manifest("0-3", command=["echo", "{lr}", "$(A)"])["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["echo", "{lr}", "$$(A)"]
    index = next(entry for entry in container["env"] if entry["name"] == "MUSTER_INDEX")
    assert index["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.annotations['{COMPLETION_INDEX}']"
    assert not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "NODE_RANK", "TF_CONFIG"} & {
        entry["name"] for entry in container["env"]
    }


def printed(whole, completion):
    """What the trial with this completion index prints, as a node runs it."""
    [container] = whole["spec"]["template"]["spec"]["containers"]
    own = {"JOB_COMPLETION_INDEX": str(completion), "PATH": os.environ["PATH"]}
    env = {entry["name"]: expand(entry["value"], {}) if "value" in entry else str(completion)
           for entry in container["env"]} | own  # fmt: skip
    command = [expand(word, {}) for word in container["command"]]
    return subprocess.run(command, env=env, capture_output=True, check=True, text=True).stdout


@pytest.mark.parametrize(
    ("array", "indexes"),
    [("0-3", [0, 1, 2, 3]), ("7", [7]), ("9,1-7:3,20-22", [9, 1, 4, 7, 20, 21, 22]), ("100-101", [100, 101])],
)
def test_a_trial_finds_its_index(array, indexes):
    whole = manifest(array, command=["sh", "-c", 'echo "$MUSTER_INDEX$IFS-$1-" "$2"', "sh", "$(A) *", ""])
    assert [printed(whole, at) for at in range(len(indexes))] == [f"{index} \t\n-$(A) *- \n" for index in indexes]


@pytest.mark.parametrize("command", [["sh", "-c", "echo $lr/$depth"], ["echo", "{lr}/{depth}"]])
@pytest.mark.parametrize(("array", "first"), [("", 0), ("2-3", 2), ("3", 3)])
def test_a_trial_finds_the_values_of_its_grid(array, first, command):
    whole = manifest(array, GRID, command)
    values = ["0.1/2", "0.1/3", "0 $(A)'/2", "0 $(A)'/3"][first:]
    count = whole["spec"]["completions"]
    assert [printed(whole, at).strip() for at in range(count)] == values[:count]


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("--lr={lr}", "--lr=0.1"),
        ("{lr}{depth}x{depth}", "0.12x2"),
        ("{no} {} {lr", "{no} {} {lr"),
        ("{{lr}}", "{0.1}"),
        ('it\'s "$HOME" `id` \\', 'it\'s "$HOME" `id` \\'),
        ("${lr}", "${lr}"),
        ("", ""),
    ],
)
def test_names_between_braces_are_filled_in_and_all_else_is_left(word, shown):
    whole = manifest("", GRID, ["printf", "%s|", "{lr}", word])
    assert printed(whole, 0) == f"0.1|{shown}|"


@pytest.mark.parametrize(
    ("array", "grid", "message"),
    [
        ("0-9%", (), "'0-9%': behind % stands how many run at a time, at least 1, as in 0-99%8"),
        ("0-9%0", (), "behind % stands"),
        ("0-9%-1", (), "behind % stands"),
        ("0-9%8%8", (), "behind % stands"),
        ("0-9%9999999999", (), "behind % stands"),
        ("%8", (), "'' is neither an index nor a range"),
        ("2-4", GRID, "4 is beyond the grid, whose 4 combinations are 0-3"),
    ],
)
def test_what_is_no_sweep(array, grid, message):
    with pytest.raises(ValueError) as raised:
        Sweep.parse(array, grid)
    assert message in str(raised.value)

"""How an installation is removed: in an order in which nothing waits for what is gone, and nothing of anybody else."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from muster.api.config import load
from muster.api.ours.invitations import INVITATION_LABEL
from muster.cli.actions.clusters.invitation import Invitation
from muster.controllers.jobset.upstream import LEASE_NAME
from muster.install.documents import make_documents
from muster.install.options import Options, make_default_configuration
from muster.install.removal import make_removal_script

KUEUE = ("kueue",)
LEASES = "leaderElection: {leaderElect: true, resourceNamespace: leases}\n"


def options(more: str = "", kinds: tuple[str, ...] = KUEUE) -> Options:
    text = make_default_configuration() + more
    return Options(text, load(text), kinds=kinds)


SCRIPT = make_removal_script(options())

# Notes what it is called with. What there is to `get` is in the file of that resource, or Lease, if there is one; after
# N naps it is what the file NAME.after-N says. The pods of the engine have a file of their own, `engine`.
KUBECTL = """\
#!/bin/sh
echo "$@" >> calls
if [ "$1" = get ]; then
  [ -f broken ] && exit 1
  if [ "$2" = leases.coordination.k8s.io ]; then name="$5"; else name="$2"; fi
  if [ "$2 $5" = "pods -l" ]; then name=engine; fi
  [ ! -f "$name" ] || cat -- "$name"
fi
"""
SLEEP = """\
#!/bin/sh
echo "$1" >> naps
for file in *.after-"$(wc -l < naps)"; do [ ! -f "$file" ] || mv "$file" "${file%.after-*}"; done
"""
THERE = ("workloads.kueue.x-k8s.io", "jobsets.jobset.x-k8s.io", "podgroups.scheduling.volcano.sh")


class Done(NamedTuple):
    """How the script ended, what it complained of, and the arguments of what it has deleted."""

    code: int
    said: str
    deleted: list[list[str]]


def run(folder: Path, script: str = SCRIPT, **answers: str) -> Done:
    """answers: what there is to `get`, by resource; a Lease by its name."""
    for name, text in (("kubectl", KUBECTL), ("sleep", SLEEP)):
        program = folder / name
        program.write_text(text)
        program.chmod(0o755)
    crds = "".join(f"customresourcedefinition.apiextensions.k8s.io/{name}\n" for name in THERE)
    for name, text in ({"customresourcedefinitions": crds} | answers).items():
        (folder / name).write_text(text)
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh"], input=script, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    calls = (folder / "calls").read_text().splitlines()
    return Done(done.returncode, done.stderr, [call.split()[1:] for call in calls if call.startswith("delete ")])


@pytest.mark.parametrize("kinds", [(), KUEUE, ("kueue", "jobset", "podgroups")])
@pytest.mark.parametrize("more", ["", LEASES])
def test_the_script_has_no_fault_that_shellcheck_knows(kinds: tuple[str, ...], more: str):
    script = make_removal_script(options(more, kinds))
    # Templates in single quotes are for kubectl, and there may be one scheduler.
    command: list[str | Path] = [Path(sys.executable).parent / "shellcheck", "--exclude=SC2016,SC2043", "-"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert not re.search(r"@[A-Z_]+@|# @", script), "all places are filled in"


@pytest.mark.parametrize(
    ("resource", "line"),
    [
        ("workloads.kueue.x-k8s.io", "  workload team/job-a of Job a\n"),
        ("jobsets.jobset.x-k8s.io", "  jobset team/train\n"),
        ("pods", "  pod team/waits waits for a node\n"),
    ],
)
def test_nothing_is_removed_while_something_needs_the_engine(tmp_path: Path, resource: str, line: str):
    done = run(tmp_path, **{resource: line})
    assert (done.code, done.deleted) == (1, [])
    assert done.said == (
        f"the engine is still needed:\n{line}wait for them to end, or delete them; nothing has been removed\n"
    )


JOBSETS = "jobsets.jobset.x-k8s.io"
JOBSET_LEASE = LEASE_NAME
ENGINE_LEASE = load(make_default_configuration()).leader_election.resource_name


def in_use(lease: str) -> str:
    """What is said while a Lease that lasts for 15 s is looked at; the last look is the eleventh."""
    return f"is the lease {lease} in use? up to 22 s\n"


def test_jobsets_that_jobsets_own_controller_runs_hold_nothing_up(tmp_path: Path):
    (tmp_path / f"{JOBSET_LEASE}.after-11").write_text("jobset-0_uid now 15")
    done = run(tmp_path, **{JOBSETS: "  jobset team/train\n", JOBSET_LEASE: "jobset-0_uid then 15"})
    left = "JobSets are left: JobSet's own controller runs them, as jobset-0_uid\n"
    assert (done.code, done.said) == (0, in_use(f"jobset-system/{JOBSET_LEASE}") + left)
    assert JOBSETS not in [name for arguments in done.deleted for name in arguments]


NOT_IN_USE = pytest.mark.parametrize(
    "lease",
    ["box_uid then 15", "box_uid then ", " then 1", ""],
    ids=["killed", "lasts not", "given back", "never there"],
)


@NOT_IN_USE
def test_jobsets_hold_it_up_where_jobsets_own_controller_has_ended(tmp_path: Path, lease: str):
    done = run(tmp_path, **{JOBSETS: "  jobset team/train\n", JOBSET_LEASE: lease})
    assert (done.code, done.deleted) == (1, [])


GOES_ON = "an engine that this script does not remove goes on, as {}: stop it, and run this again"


def test_nothing_is_removed_while_an_engine_outside_of_the_cluster_renews_its_lease(tmp_path: Path):
    (tmp_path / f"{ENGINE_LEASE}.after-11").write_text("muster_box_uid now 15")
    done = run(tmp_path, **{ENGINE_LEASE: "muster_box_uid then 15", "engine": "pod/engine-0\n"})
    said = in_use(f"{options().lease_namespace}/{ENGINE_LEASE}") + GOES_ON.format("muster_box_uid")
    assert (done.code, done.deleted, done.said) == (1, [], f"{said}; nothing has been removed\n")


def test_kinds_stay_where_an_engine_outside_of_the_cluster_takes_the_lease(tmp_path: Path):
    (tmp_path / f"{ENGINE_LEASE}.after-11").write_text("muster_box_uid now 15")
    done = run(tmp_path, **{ENGINE_LEASE: "muster_engine-0_uid then 15", "engine": "pod/engine-0\n"})
    said = in_use(f"{options().lease_namespace}/{ENGINE_LEASE}") + GOES_ON.format("muster_box_uid")
    assert (done.code, done.said) == (1, f"{said}\n")
    kinds = [arguments[0].partition(".")[0] for arguments in done.deleted]
    assert "deployment" in kinds
    assert "customresourcedefinition" not in kinds


def test_a_replica_that_takes_the_lease_of_a_dead_one_holds_nothing_up(tmp_path: Path):
    (tmp_path / f"{ENGINE_LEASE}.after-3").write_text("muster_engine-1_uid now 15")
    done = run(tmp_path, **{ENGINE_LEASE: "muster_box_uid then 15", "engine": "pod/engine-0\npod/engine-1\n"})
    assert done.code == 0


def test_who_holds_a_lease_is_shown_without_what_could_steer_a_terminal(tmp_path: Path):
    (tmp_path / f"{ENGINE_LEASE}.after-1").write_text("box\x1b[2J_uid now 15")
    assert "goes on, as box[2J_uid: stop" in run(tmp_path, **{ENGINE_LEASE: "box\x1b[2J_uid then 15"}).said


def test_a_lease_that_lasts_for_ever_is_looked_at_for_two_minutes_each_time(tmp_path: Path):
    done = run(tmp_path, **{ENGINE_LEASE: "box_uid then 2147483647"})
    assert (done.code, len((tmp_path / "naps").read_text().split())) == (0, 2 * 60)


def test_what_managers_in_other_clusters_were_granted_goes_with_the_engine(tmp_path: Path):
    """Invitations are not installed, and have names of their own: a label tells them."""
    (deleted,) = [arguments for arguments in run(tmp_path).deleted if INVITATION_LABEL in arguments]
    assert deleted[0].split(",") == ["rolebindings", "clusterrolebindings", "clusterroles", "serviceaccounts"]
    made = {
        kind.plural for kind, document in Invitation("m", "n", ("a",)).manifests() if "labels" in document["metadata"]
    }
    assert made | {"clusterrolebindings"} == {*deleted[0].split(","), "secrets"}, "the token goes with its account"


SLOW = "leaderElection: {leaderElect: true, leaseDuration: 60s, renewDeadline: 40s, retryPeriod: 10s}\n"


@pytest.mark.parametrize(("more", "look"), [("", 3), (SLOW, 11)])
def test_kinds_stay_where_a_standby_takes_the_lease_that_the_engine_gave_back(tmp_path: Path, more: str, look: int):
    """It asks for it within 2.2 retry periods."""
    (tmp_path / f"{ENGINE_LEASE}.after-{look}").write_text("standby_uid now 15")
    done = run(tmp_path, make_removal_script(options(more)), **{ENGINE_LEASE: " then 1"})
    assert done.code == 1
    assert "goes on, as standby_uid" in done.said


@NOT_IN_USE
def test_an_engine_that_has_ended_holds_nothing_up(tmp_path: Path, lease: str):
    assert run(tmp_path, **{ENGINE_LEASE: lease}).code == 0


def test_no_jobset_goes_with_its_kind_whoever_runs_it(tmp_path: Path):
    (tmp_path / f"{JOBSET_LEASE}.after-1").write_text("jobset-0_uid now 15")
    script = make_removal_script(options(kinds=("kueue", "jobset")))
    done = run(tmp_path, script, **{JOBSETS: "  jobset team/train\n", JOBSET_LEASE: "jobset-0_uid then 15"})
    assert (done.code, done.deleted) == (1, [])


def test_nothing_is_removed_where_the_cluster_cannot_be_asked(tmp_path: Path):
    (tmp_path / "broken").touch()
    done = run(tmp_path)
    assert (done.code, done.deleted) == (1, [])


def test_nothing_is_removed_where_the_engine_is_elsewhere(tmp_path: Path):
    done = run(tmp_path, deployments="batch ")
    assert (done.code, done.deleted) == (1, [])
    assert "the engine is in another namespace: batch" in done.said


def test_nothing_is_removed_from_a_cluster_that_has_an_engine_of_its_own(tmp_path: Path):
    done = run(tmp_path, **{"--raw": '{"gitVersion": "v1.36.2+muster"}'})
    assert (done.code, done.deleted) == (1, [])
    assert "this is a cluster of muster up, which has an engine of its own; nothing has been removed" in done.said


def test_what_waits_for_the_engine_goes_before_it_and_the_kinds_after_it(tmp_path: Path):
    done = run(tmp_path)
    assert (done.code, done.said) == (0, "")
    kinds = [arguments[0].partition(".")[0] for arguments in done.deleted]
    order = [
        "workloads",  # the only kind of the engine's own that is there
        "validatingwebhookconfiguration",
        "mutatingwebhookconfiguration",
        "deployment",
        "customresourcedefinition",
        "clusterrolebinding",
        "serviceaccount",
    ]
    assert sorted(order, key=lambda kind: len(kinds) - kinds[::-1].index(kind)) == order  # by the last of each
    assert [kinds.count(kind) for kind in order[1:4]] == [1, 1, 1]
    assert kinds[-1] == "namespace"


@pytest.mark.parametrize("kinds", [KUEUE, ("kueue", "jobset", "podgroups")], ids=" ".join)
def test_all_that_was_installed_goes_by_its_name_and_nothing_else_does(tmp_path: Path, kinds: tuple[str, ...]):
    chosen = options(LEASES, kinds)
    wanted = {
        (each["kind"].lower(), each["metadata"].get("namespace", ""), each["metadata"]["name"])
        for each in make_documents(chosen)
    } | {(kind, "", "muster-dashboard-impersonation") for kind in ("clusterrole", "clusterrolebinding")}
    removed = set()
    for kind, *arguments in run(tmp_path, make_removal_script(chosen)).deleted:
        if "--all" in arguments:  # objects of the engine's own kinds
            assert kind.endswith(".kueue.x-k8s.io")
            continue
        if INVITATION_LABEL in arguments:  # a label of ours alone
            continue
        assert not {"-l", "-A"} & set(arguments)
        place = arguments[arguments.index("-n") + 1] if "-n" in arguments else ""
        names = arguments[2:] if place else arguments
        removed |= {(kind.partition(".")[0], place, name) for name in names if not name.startswith("--")}
    assert removed == wanted


@pytest.mark.parametrize(
    ("kinds", "groups"),
    [
        (("kueue",), {"kueue.x-k8s.io"}),
        (("kueue", "jobset"), {"kueue.x-k8s.io", "jobset.x-k8s.io"}),
    ],
)
def test_definitions_of_other_projects_stay_unless_they_are_named(
    tmp_path: Path, kinds: tuple[str, ...], groups: set[str]
):
    deleted = run(tmp_path, make_removal_script(options(kinds=kinds))).deleted
    (names,) = [names for kind, *names in deleted if kind.startswith("customresourcedefinition.")]
    assert {name.partition(".")[2] for name in names if not name.startswith("--")} == groups


def test_pod_groups_do_not_go_with_their_kind(tmp_path: Path):
    left = {"podgroups.scheduling.volcano.sh": "  podgroup team/theirs would go with its kind\n"}
    done = run(tmp_path, make_removal_script(options(kinds=("kueue", "podgroups"))), **left)
    assert (done.code, done.deleted) == (1, [])
    assert "podgroup team/theirs would go with its kind" in done.said


def test_pod_groups_whose_kind_stays_hold_nothing_up(tmp_path: Path):
    assert run(tmp_path, **{"podgroups.scheduling.volcano.sh": "  podgroup team/theirs\n"}).code == 0


def test_a_namespace_in_which_others_work_stays(tmp_path: Path):
    asked = "deployments,statefulsets,daemonsets,cronjobs,jobs,persistentvolumeclaims"
    done = run(tmp_path, **{asked: "persistentvolumeclaim/theirs\n"})
    assert done.code == 0
    assert "namespace" not in [arguments[0] for arguments in done.deleted]
    assert "namespace kueue-system stays with its Secrets" in done.said


def test_webhooks_go_whether_they_are_spoken_of_or_not():
    text = make_default_configuration()
    assert make_removal_script(Options(text, load(text), kinds=KUEUE, webhooks=False)) == SCRIPT


def test_roles_that_collect_others_go_before_these():
    names = [line.strip(" \\") for line in SCRIPT.splitlines()]
    assert names.index("kueue-batch-user-role") < names.index("muster-queues-viewer")
    assert names.index("muster-engine") > names.index("muster-queues-viewer")


def test_queues_go_before_what_they_use():
    names = [line.split()[1].partition(".")[0] for line in SCRIPT.splitlines() if line.startswith("delete_all ")]
    assert names[:3] == ["localqueues", "clusterqueues", "workloads"]
    assert set(names[3:]) >= {"admissionchecks", "resourceflavors", "topologies", "cohorts"}

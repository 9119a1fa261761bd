"""What a node decides about a pod: every rule of the kubelet's that we keep, as facts in and a plan out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from muster.api.core import POD
from muster.cluster.nodes.pod.facts import (
    Attempt,
    ContainerFacts,
    EndDecision,
    Exit,
    Kill,
    Now,
    PodFacts,
    Prepare,
    Reserve,
    Start,
    Stop,
    Trouble,
)
from muster.cluster.nodes.pod.machine import decide

WALL = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def at(seconds):
    return Now(WALL + timedelta(seconds=seconds), float(seconds))


def running(number=0, *, since=0, ready=True, **more):
    return Attempt(number, f"id-{number}", at(since).wall, started=ready, ready=ready, **more)


def exited(code, number=0, *, began=0, ended=1, reason="", **more):
    reason = reason or ("Error" if code else "Completed")
    exit = Exit(code, reason, "", at(began).wall, at(ended).wall, float(ended), float(ended - began), f"id-{number}")
    return Attempt(number, f"id-{number}", at(began).wall, exit, **more)


def facts(containers=None, *, prepared=True, **more):
    known = {
        name: found if isinstance(found, ContainerFacts) else ContainerFacts(found)
        for name, found in (containers or {}).items()
    }
    return PodFacts(known, prepared=prepared, start_time=WALL, address="127.1.0.1", host_address="127.0.0.1", **more)


def sidecar(name):
    return {"name": name, "command": ["x"], "restartPolicy": "Always"}


def container(name, **more):
    return {"name": name, "command": ["x"], **more}


def test_first_the_pod_is_set_up(make_pod):
    plan = decide(make_pod(), facts(prepared=False), at(0))
    assert plan.actions == (Prepare(),)
    assert plan.status.phase == "Pending"
    assert plan.status.pod_ip == ""


def test_what_cannot_be_set_up_waits_and_says_why(make_pod):
    trouble = Trouble("FailedMount", "no configmap", 10.0)
    plan = decide(make_pod(), facts(prepared=False, trouble=trouble), at(4))
    assert (plan.actions, plan.look_again_in) == ((), 6.0)
    assert [(note.reason, note.message) for note in plan.notes] == [("FailedMount", "no configmap")]
    assert decide(make_pod(), facts(prepared=False, trouble=trouble), at(10)).actions == (Prepare(),)


def test_main_containers_start_together(make_pod):
    pod = make_pod({"containers": [container("a"), container("b")]})
    assert decide(pod, facts(), at(0)).actions == (Start("a", 0, 0), Start("b", 0, 0))


def test_a_start_that_is_under_way_is_not_repeated(make_pod):
    plan = decide(make_pod(), facts({"main": ContainerFacts(starting=True)}), at(0))
    assert plan.actions == ()
    assert not plan.over


INITS = {"initContainers": [container("i1"), sidecar("s"), container("i2")], "containers": [container("main")]}


@pytest.mark.parametrize(
    ("known", "actions"),
    [
        ({}, ["i1"]),
        ({"i1": running()}, []),
        ({"i1": exited(0)}, ["s"]),
        ({"i1": exited(0), "s": running(ready=False)}, []),
        ({"i1": exited(0), "s": running()}, ["i2"]),
        ({"i1": exited(0), "s": running(), "i2": running()}, []),
        ({"i1": exited(0), "s": running(), "i2": exited(0)}, ["main"]),
        # A sidecar that dies before the others have started holds them up, and is started again.
        ({"i1": exited(0), "s": exited(1)}, ["s"]),
        # Once a main container has run, init containers are over and sidecars hold up nothing.
        ({"i1": exited(0), "s": exited(1), "i2": exited(0), "main": running()}, ["s"]),
    ],
)
def test_init_containers_run_in_order(make_pod, known, actions):
    plan = decide(make_pod(INITS), facts(known), at(100))
    assert [action.container for action in plan.actions if isinstance(action, Start)] == actions


BARRIER = "group-scheduling-init"
GATED = {"initContainers": [container("i"), sidecar("s"), container(BARRIER)], "containers": [container("main")]}


@pytest.mark.parametrize(
    ("known", "more", "reserved"),
    [
        ({"i": running()}, {}, []),
        ({"i": exited(0), "s": running()}, {}, []),
        ({"i": exited(0), "s": running(), BARRIER: running()}, {}, ["main"]),
        ({"i": exited(0), "s": running(), BARRIER: running(), "main": ContainerFacts(reserved=True)}, {}, []),
        ({"i": exited(0), "s": running(), BARRIER: running(), "main": ContainerFacts(starting=True)}, {}, []),
        # What restarts keeps what is ready for the time after it; nothing is made ready in a pod that ends.
        ({"i": exited(0), "s": running(), BARRIER: exited(1)}, {}, []),
        ({"i": exited(0), "s": running(), BARRIER: running()}, {"deleting_since": 1.0}, []),
        # Once a main container has run, they are started as they come.
        ({"i": exited(0), "s": running(), BARRIER: running(), "main": exited(1)}, {}, []),
    ],
)
def test_main_containers_are_made_ready_while_the_barrier_of_their_group_runs(make_pod, known, more, reserved):
    plan = decide(make_pod(GATED), facts(known, **more), at(100))
    assert [action.container for action in plan.actions if isinstance(action, Reserve)] == reserved


def test_no_other_init_container_has_main_containers_made_ready(make_pod):
    plan = decide(make_pod(INITS), facts({"i1": exited(0), "s": running(), "i2": running()}), at(100))
    assert plan.actions == ()


@pytest.mark.parametrize(
    ("policy", "code", "starts", "phase"),
    [
        ("Always", 0, True, "Running"),
        ("Always", 1, True, "Running"),
        ("OnFailure", 0, False, "Succeeded"),
        ("OnFailure", 1, True, "Running"),
        ("Never", 0, False, "Succeeded"),
        ("Never", 1, False, "Failed"),
    ],
)
def test_restart_policies(make_pod, policy, code, starts, phase):
    plan = decide(make_pod({"restartPolicy": policy}), facts({"main": exited(code)}), at(1))
    assert plan.actions == ((Start("main", 1, 1),) if starts else ())
    assert plan.status.phase == phase
    assert plan.over is not starts


@pytest.mark.parametrize(
    ("restarts", "delay"), [(0, 0), (1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 300), (7, 300), (1000, 300)]
)
def test_back_off_doubles_up_to_five_minutes(make_pod, restarts, delay):
    known = ContainerFacts(exited(1, restarts, began=99, ended=100), restarts=restarts)
    pod = make_pod({"restartPolicy": "Always"})
    due = decide(pod, facts({"main": known}), at(100 + delay))
    assert due.actions == (Start("main", restarts + 1, restarts + 1),)
    if delay:
        early = decide(pod, facts({"main": known}), at(100 + delay - 1))
        assert (early.actions, early.look_again_in) == ((), 1.0)
        status = early.status.container_statuses[0]
        shown = "5m0s" if delay == 300 else f"{delay // 60}m{delay % 60}s" if delay >= 60 else f"{delay}s"
        assert status.state.waiting.reason == "CrashLoopBackOff"
        assert status.state.waiting.message == f"back-off {shown} restarting failed container=main pod=p_ns(uid-1)"
        assert status.last_state.terminated.exit_code == 1
        assert early.status.phase == "Running"
        assert [note.reason for note in early.notes] == ["BackOff"]


def test_ten_good_minutes_make_the_back_off_begin_anew(make_pod):
    known = ContainerFacts(exited(1, 5, began=0, ended=600), restarts=5)
    plan = decide(make_pod({"restartPolicy": "Always"}), facts({"main": known}), at(600))
    assert plan.actions == (Start("main", 6, 1),)


@pytest.mark.parametrize(
    ("rule", "code", "starts"),
    [
        ({"operator": "In", "values": [42]}, 42, True),
        ({"operator": "In", "values": [42]}, 1, False),
        ({"operator": "NotIn", "values": [42]}, 1, True),
        ({"operator": "NotIn", "values": [42]}, 42, False),
    ],
)
def test_restart_rules_by_exit_code(make_pod, rule, code, starts):
    rules = [{"action": "Restart", "exitCodes": rule}]
    pod = make_pod({"containers": [container("main", restartPolicy="Never", restartPolicyRules=rules)]})
    plan = decide(pod, facts({"main": exited(code)}), at(1))
    assert bool(plan.actions) is starts


def test_an_init_container_that_failed_for_good_fails_the_pod(make_pod):
    plan = decide(make_pod(INITS), facts({"i1": exited(3)}), at(1))
    assert (plan.actions, plan.status.phase, plan.over) == ((), "Failed", True)
    again = decide(make_pod({**INITS, "restartPolicy": "OnFailure"}), facts({"i1": exited(3)}), at(1))
    assert (again.actions, again.status.phase) == ((Start("i1", 1, 1),), "Pending")


def test_the_others_run_on_when_one_container_has_failed(make_pod):
    pod = make_pod({"containers": [container("a"), container("b")]})
    plan = decide(pod, facts({"a": exited(1), "b": running()}), at(1))
    assert (plan.actions, plan.status.phase, plan.over) == ((), "Running", False)
    assert decide(pod, facts({"a": exited(1), "b": exited(0)}), at(1)).status.phase == "Failed"


SIDECARS = {"initContainers": [sidecar("s1"), sidecar("s2")], "containers": [container("main")]}


def test_sidecars_end_after_the_others_in_reverse_order(make_pod):
    pod = make_pod(SIDECARS)
    done = {"main": exited(0), "s1": running(), "s2": running()}
    assert decide(pod, facts(done), at(5)).actions == (Stop("s2", "Stopping container s2", 30.0),)
    done["s2"] = running(stopping_since=5.0)
    waiting = decide(pod, facts(done), at(6))
    assert (waiting.actions, waiting.look_again_in, waiting.status.phase) == ((), 29.0, "Running")
    done["s2"] = exited(137)
    assert decide(pod, facts(done), at(7)).actions == (Stop("s1", "Stopping container s1", 30.0),)
    done["s1"] = exited(143)
    assert decide(pod, facts(done), at(8)).status.phase == "Succeeded"


def test_a_sidecar_that_does_not_end_is_killed(make_pod):
    done = {"main": exited(0), "s1": exited(0), "s2": running(stopping_since=5.0)}
    assert decide(make_pod(SIDECARS), facts(done), at(35)).actions == (Kill("s2"),)


def deleted(make_pod, spec=None, grace=30, **more):
    return make_pod(spec, deletionTimestamp="2026-01-01T12:01:00Z", deletionGracePeriodSeconds=grace, **more)


def test_a_deleted_pod_is_asked_killed_and_removed(make_pod):
    pod = deleted(make_pod)
    asked = decide(pod, facts({"main": running()}, deleting_since=10.0), at(10))
    assert asked.actions == (Stop("main", "Stopping container main", 30.0),)
    assert asked.look_again_in == 30.0
    waiting = facts({"main": running(stopping_since=10.0)}, deleting_since=10.0)
    assert decide(pod, waiting, at(39)).actions == ()
    assert decide(pod, waiting, at(40)).actions == (Kill("main"),)
    killed = facts({"main": running(stopping_since=10.0, killed=True)}, deleting_since=10.0)
    assert decide(pod, killed, at(41)).actions == ()
    plan = decide(pod, facts({"main": exited(137)}, deleting_since=10.0), at(41))
    assert (plan.over, plan.remove, plan.status.phase) == (True, True, "Failed")


def test_a_shorter_grace_period_takes_effect_at_once(make_pod):
    waiting = facts({"main": running(stopping_since=10.0)}, deleting_since=10.0)
    assert decide(deleted(make_pod, grace=5), waiting, at(15)).actions == (Kill("main"),)


@pytest.mark.parametrize(
    ("known", "phase"),
    [({}, "Failed"), ({"main": exited(0)}, "Succeeded"), ({"main": exited(143)}, "Failed")],
)
def test_how_a_deleted_pod_ends(make_pod, known, phase):
    """A pod that never ran has failed (KEP-3329)."""
    plan = decide(deleted(make_pod), facts(known, deleting_since=0.0), at(1))
    assert (plan.remove, plan.status.phase) == (True, phase)


def test_nothing_is_started_in_a_pod_that_is_deleted(make_pod):
    pod = deleted(make_pod, {"restartPolicy": "Always"})
    plan = decide(pod, facts({"main": exited(1)}, deleting_since=0.0), at(100))
    assert plan.actions == ()
    assert plan.status.container_statuses[0].state.terminated.exit_code == 1


def test_a_start_under_way_is_waited_for(make_pod):
    plan = decide(deleted(make_pod), facts({"main": ContainerFacts(starting=True)}, deleting_since=0.0), at(1))
    assert not plan.over


def test_the_deadline_ends_the_pod(make_pod):
    pod = make_pod({"activeDeadlineSeconds": 60, "terminationGracePeriodSeconds": 5})
    before = decide(pod, facts({"main": running()}, deadline=60.0), at(59))
    assert (before.actions, before.look_again_in) == ((), 1.0)
    asked = decide(pod, facts({"main": running()}, deadline=60.0), at(60))
    assert asked.actions == (Stop("main", "Stopping container main", 5.0),)
    assert asked.status.phase == "Running"
    waiting = facts({"main": running(stopping_since=60.0)}, deadline=60.0)
    assert decide(pod, waiting, at(65)).actions == (Kill("main"),)
    plan = decide(pod, facts({"main": exited(0)}, deadline=60.0), at(66))
    assert (plan.over, plan.remove) == (True, False)
    assert (plan.status.phase, plan.status.reason) == ("Failed", "DeadlineExceeded")
    assert plan.status.message == "Pod was active on the node longer than the specified deadline"


def test_a_condemned_container_is_ended_and_started_again_whatever_its_exit_code(make_pod):
    pod = make_pod({"restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 7})
    why = "Container main failed liveness probe, will be restarted"
    assert decide(pod, facts({"main": running(condemned=why)}), at(5)).actions == (Stop("main", why, 7.0),)
    waiting = facts({"main": running(condemned=why, stopping_since=5.0)})
    assert decide(pod, waiting, at(11)).look_again_in == 1.0
    assert decide(pod, waiting, at(12)).actions == (Kill("main"),)
    plan = decide(pod, facts({"main": exited(0, condemned=why)}), at(13))
    assert plan.actions == (Start("main", 1, 1),)


def test_a_probe_may_have_its_own_grace_period(make_pod):
    known = running(condemned="x", condemned_grace_seconds=2)
    assert decide(make_pod(), facts({"main": known}), at(5)).actions == (Stop("main", "x", 2.0),)


@pytest.mark.parametrize("why", ["shutdown", "left", "interrupted", "rejected", "gone"])
def test_the_node_can_end_a_pod(make_pod, why):
    ending = EndDecision(why, 10.0, 20.0, "Reason", "because")
    asked = decide(make_pod(), facts({"main": running()}, ending=ending), at(10))
    assert asked.actions == (Stop("main", "Stopping container main", 20.0),)
    plan = decide(make_pod(), facts({"main": exited(0)}, ending=ending), at(11))
    assert (plan.over, plan.remove) == (True, False)
    assert (plan.status.phase, plan.status.reason, plan.status.message) == ("Failed", "Reason", "because")
    disrupted = {condition.type for condition in plan.status.conditions if condition.reason == "TerminationByKubelet"}
    only = {"DisruptionTarget"}
    marks = {"shutdown": only | {"muster.dev/ClusterStopped"}, "left": only, "interrupted": only}
    assert disrupted == marks.get(why, set())


def fenced(**more):
    return exited(137, reason="Fenced", ended=9, **more)


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
def test_a_pod_that_its_fence_has_ended_fails_whole_and_was_disrupted(make_pod, policy):
    pod = make_pod({"restartPolicy": policy, "containers": [container("a"), container("b")]})
    plan = decide(pod, facts({"a": fenced(), "b": running()}), at(10))
    assert [action for action in plan.actions if isinstance(action, Kill)] == [Kill("b")]
    plan = decide(pod, facts({"a": fenced(), "b": exited(0)}), at(10))
    assert (plan.over, plan.status.phase, plan.status.reason) == (True, "Failed", "NodeLost")
    disrupted = {c.type: c.reason for c in plan.status.conditions if c.type == "DisruptionTarget"}
    assert disrupted == {"DisruptionTarget": "TerminationByKubelet"}


def test_a_pod_is_asked_to_end_before_its_fence_closes(make_pod):
    pod = make_pod({"containers": [container("a")], "terminationGracePeriodSeconds": 3600})
    ending = EndDecision("fenced", 10.0, 20.0, "NodeLost", "cut off")
    plan = decide(pod, facts({"a": running()}, ending=ending), at(10))
    assert [type(action) for action in plan.actions] == [Stop]
    plan = decide(pod, facts({"a": running(stopping_since=10.0)}, ending=ending), at(30))
    assert plan.actions == (Kill("a"),)
    plan = decide(pod, facts({"a": exited(0)}, ending=ending), at(12))
    assert (plan.status.phase, plan.status.reason) == ("Failed", "NodeLost")
    assert "DisruptionTarget" in {c.type for c in plan.status.conditions}


def test_what_runs_of_a_pod_that_has_ended_as_others_say_is_killed(make_pod):
    pod = make_pod({"containers": [container("a")]})
    pod = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase="Failed", reason="NodeLost"))
    plan = decide(pod, facts({"a": running()}), at(10))
    assert Kill("a") in plan.actions
    plan = decide(pod, facts({"a": exited(137)}), at(11))
    assert (plan.over, plan.status.phase, plan.status.reason) == (True, "Failed", "NodeLost")


def test_a_shutdown_gives_no_more_time_than_the_pod_has(make_pod):
    pod = make_pod({"terminationGracePeriodSeconds": 3})
    ending = EndDecision("shutdown", 10.0, 20.0)
    waiting = facts({"main": running(stopping_since=10.0)}, ending=ending)
    assert decide(pod, waiting, at(13)).actions == (Kill("main"),)


def test_a_finished_pod_stays_what_it_is(make_pod):
    status = {"phase": "Failed", "reason": "DeadlineExceeded", "message": "x"}
    pod = deleted(make_pod, status=status)
    plan = decide(pod, facts({"main": exited(0)}, deleting_since=0.0), at(1))
    assert (plan.status.phase, plan.status.reason, plan.status.message) == ("Failed", "DeadlineExceeded", "x")
    assert plan.remove


def test_a_container_that_cannot_be_created_waits(make_pod):
    trouble = Trouble("CreateContainerConfigError", 'configmap "x" not found', 10.0)
    known = ContainerFacts(trouble=trouble)
    plan = decide(make_pod(), facts({"main": known}), at(4))
    assert (plan.actions, plan.look_again_in, plan.status.phase) == ((), 6.0, "Pending")
    waiting = plan.status.container_statuses[0].state.waiting
    assert (waiting.reason, waiting.message) == ("CreateContainerConfigError", 'configmap "x" not found')
    assert [(note.type, note.reason, note.message) for note in plan.notes] == [
        ("Warning", "Failed", 'Error: configmap "x" not found')
    ]
    assert decide(make_pod(), facts({"main": known}), at(10)).actions == (Start("main", 0, 0),)


@st.composite
def lives(draw):
    """Any facts about a pod with init containers, sidecars and main containers."""
    names = [BARRIER, "s", "a", "b"]
    known = {}
    for name in names:
        kind = draw(st.sampled_from(["none", "starting", "running", "exited"]))
        number = draw(st.integers(0, 3))
        attempt = None
        if kind == "running":
            attempt = running(number, ready=draw(st.booleans()), condemned=draw(st.sampled_from(["", "x"])))
            if draw(st.booleans()):
                attempt = replace(attempt, stopping_since=draw(st.floats(0, 50)), killed=draw(st.booleans()))
        elif kind == "exited":
            attempt = exited(draw(st.sampled_from([0, 1, 137])), number, ended=draw(st.integers(1, 50)))
        known[name] = ContainerFacts(attempt, restarts=number, starting=kind == "starting")
    return facts(
        known,
        deadline=draw(st.none() | st.floats(0, 60)),
        deleting_since=draw(st.none() | st.floats(0, 50)),
        ending=draw(st.none() | st.builds(EndDecision, st.just("gone"), st.floats(0, 50), st.floats(0, 30))),
    )


@given(lives(), st.sampled_from(["Always", "OnFailure", "Never"]), st.integers(0, 100), st.booleans())
def test_whatever_is_known_of_a_pod(known, policy, moment, deleting):
    spec = {
        "restartPolicy": policy,
        "initContainers": [container(BARRIER), sidecar("s")],
        "containers": [container("a"), container("b")],
    }
    meta: dict[str, Any] = {"name": "p", "namespace": "ns", "uid": "u"}
    if known.deleting_since is not None:
        meta |= {"deletionTimestamp": "2026-01-01T12:00:00Z", "deletionGracePeriodSeconds": 30}
    pod = POD.decode(msgspec.json.encode({"metadata": meta, "spec": spec}))
    now = at(moment)
    plan = decide(pod, known, now)
    alive = {name for name, found in known.containers.items() if found.attempt and found.attempt.is_alive}
    busy = alive | {name for name, found in known.containers.items() if found.starting}
    # Over means that nothing runs, and what is over asks for nothing more.
    assert not (plan.over and (busy or plan.actions or plan.look_again_in))
    assert plan.over <= (plan.status.phase in ("Succeeded", "Failed"))
    assert plan.remove <= (plan.over and known.deleting_since is not None)
    for action in plan.actions:
        if isinstance(action, Start):
            assert action.container not in busy, "never two of one container"
            assert known.ending is None
            assert known.deleting_since is None
        elif isinstance(action, Reserve):
            assert action.container not in busy, "what is made ready does not run yet"
            assert BARRIER in alive
        else:
            assert action.container in alive
    # A container is asked once and killed once.
    asked = [action.container for action in plan.actions if isinstance(action, Stop)]
    assert all(known.containers[name].attempt.stopping_since is None for name in asked)
    killed = [action.container for action in plan.actions if isinstance(action, Kill)]
    assert not any(known.containers[name].attempt.killed for name in killed)
    # Deciding again at the time that was named never stands still: there is always a next time, an action, or the end.
    assert plan.look_again_in is None or plan.look_again_in > 0
    # Restart counts never go back, and statuses name every container.
    assert [status.name for status in plan.status.container_statuses] == ["a", "b"]

"""What `muster run` submits."""

import os
import signal
import subprocess

import msgspec
import pytest
from msgspec import structs

from muster.actions.submission.gang import Gang, Role, SecretVariables, SoftSignal
from muster.actions.submission.manifests import cron_job, make_job, make_jobset, make_service
from muster.api.batch import COMPLETION_INDEX, CRON_JOB, JOB
from muster.api.defaults import DEFAULTS
from muster.api.jobset import JOB_SET
from muster.api.ours.elastic import Bounds, World
from muster.api.validation.groups import apps as app_rules
from muster.api.validation.jobset import validate_create
from muster.cluster.nodes.container.environment import expand
from muster.jobs.job.plan import Creation
from muster.jobs.job.pods import PodTemplate
from muster.jobs.job.world import find_current_world, world_of


def job_of(gang, role=0):
    """What the spec of the Job of a role is."""
    return (
        make_job(gang)["spec"] if gang.is_job else make_jobset(gang)["spec"]["replicatedJobs"][role]["template"]["spec"]
    )


def container_of(gang, role=0):
    [container] = job_of(gang, role)["template"]["spec"]["containers"]
    return container


def environment(gang, role=0):
    return {entry["name"]: entry for entry in container_of(gang, role)["env"]}


def test_a_gang_is_a_jobset_that_is_lost_with_one_worker():
    spec = make_jobset(Gang("train", ["python", "t.py"], workers=4))["spec"]
    [role] = spec["replicatedJobs"]
    assert (role["name"], role["replicas"]) == ("workers", 1)
    wanted = {"completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimit": 0}
    assert role["template"]["spec"].items() >= wanted.items()
    assert "failurePolicy" not in spec


@pytest.mark.parametrize(
    ("gang", "config"),
    [
        (Gang("x", ["x"]), None),
        (Gang("x", ["x"], start_timeout=9), None),  # one alone waits for nobody
        (Gang("x", ["x"], workers=2), {}),
        (Gang("x", ["x"], workers=2, start_timeout=9), {"timeoutAfterSeconds": 9}),
        (Gang("x", roles=[Role("a", ["x"]), Role("b", ["x"])]), {}),
    ],
)
def test_several_workers_wait_for_each_other(gang, config):
    assert make_jobset(gang)["spec"].get("groupSchedulingConfig") == config


ROLES = Gang(
    "train",
    roles=[Role("driver", ["d", "$(A)"], cpus="2"), Role("worker", ["w"], 3, gpus=1), Role("eval", ["e"])],
    until="driver",
    stdin=True,
)


def test_roles_have_ranks_one_after_the_other():
    env = [environment(ROLES, role) for role in range(3)]
    assert {one["WORLD_SIZE"]["value"] for one in env} == {"5"}
    assert {one["MASTER_ADDR"]["value"] for one in env} == {"train-driver-0-0.train"}
    assert "job-completion-index" in env[0]["RANK"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert env[2]["RANK"]["value"] == "4"
    places = [(one["MUSTER_ROLE"]["value"], one["MUSTER_ROLE_SIZE"]["value"]) for one in env]
    assert places == [("driver", "1"), ("worker", "3"), ("eval", "1")]
    assert env[1]["MUSTER_ROLE_RANK"] == env[0]["RANK"] | {"name": "MUSTER_ROLE_RANK"}


def test_the_ranks_of_several_that_do_not_come_first_are_added_up_in_a_shell():
    commands = [container_of(ROLES, role)["command"] for role in range(3)]
    assert (commands[0], commands[2]) == (["d", "$$(A)"], ["e"])
    shell = [expand(word, {}) for word in commands[1]]
    given = {"MUSTER_ROLE_FIRST": "1", "MUSTER_ROLE_RANK": "2", "PATH": os.environ["PATH"]}
    asks = [*shell[:4], "sh", "-c", 'echo "$RANK $@"', "sh", "a b", "*"]
    assert shell[4:] == ["w"]
    assert subprocess.run(asks, env=given, capture_output=True, check=True).stdout == b"3 a b *\n"
    own = container_of(structs.replace(ROLES, environment={"RANK": "x"}), 1)
    assert own["command"] == ["w"]


def test_roles_ask_for_what_is_theirs_and_the_end_of_one_may_be_the_end_of_all():
    resources = [container_of(ROLES, role).get("resources") for role in range(3)]
    assert resources == [{"requests": {"cpu": "2"}}, {"limits": {"nvidia.com/gpu": 1}}, None]
    assert [container_of(ROLES, role).get("stdin") for role in range(3)] == [True, None, None]
    policy = make_jobset(ROLES)["spec"]["successPolicy"]
    assert policy == {"operator": "All", "targetReplicatedJobs": ["driver"]}


def test_without_jobsets_it_is_a_job():
    gang = Gang("train", ["x"], workers=2, plain=True)
    assert environment(gang)["MASTER_ADDR"]["value"] == "train-0.train"
    assert make_job(gang)["spec"]["template"]["spec"]["subdomain"] == "train"
    assert make_job(gang)["spec"]["ttlSecondsAfterFinished"] == make_jobset(gang)["spec"]["ttlSecondsAfterFinished"]


@pytest.mark.parametrize(
    "gang",
    [
        ROLES,
        Gang("t", ["x"], workers=2),
        Gang("t", ["x"], start_timeout=1),
        Gang("t", ["x"], time_limit=9, retries=2, exclusive=True, labels={"a": "b"}, annotations={"c": "d"}),
    ],
)
def test_the_server_has_nothing_to_say_against_it(gang):
    document = make_jobset(gang)
    DEFAULTS[JOB_SET.resource](document)
    assert validate_create(JOB_SET.decode(msgspec.json.encode(document))) == []


def test_what_a_worker_said_last_outlives_it():
    assert container_of(Gang("train", ["x"]))["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_simulated_nodes_are_told_for_how_long():
    for gang, run_time in ((Gang("x", ["x"]), None), (Gang("x", ["x"], run_time="90s"), "90s")):
        template = job_of(gang)["template"]
        assert template.get("metadata", {}).get("annotations", {}).get("muster.dev/run-time") == run_time
    elastic = job_of(Gang("x", ["x"], elastic=Bounds(1, 2), run_time="1h"))["template"]["metadata"]
    assert len(elastic["annotations"]) > 1


def test_workers_find_what_torch_looks_for():
    env = environment(Gang("train", ["x"], workers=4))
    assert env["WORLD_SIZE"]["value"] == "4"
    assert env["LOCAL_RANK"]["value"] == "0"
    assert env["MASTER_ADDR"]["value"] == "train-workers-0-0.train"
    assert 20000 <= int(env["MASTER_PORT"]["value"]) < 30000
    assert "job-completion-index" in env["RANK"]["valueFrom"]["fieldRef"]["fieldPath"]


def test_two_gangs_do_not_share_a_port():
    ports = {environment(Gang(f"train-{n}", ["x"]))["MASTER_PORT"]["value"] for n in range(20)}
    assert len(ports) > 15


def test_what_the_user_sets_wins():
    env = environment(Gang("train", ["x"], environment={"MASTER_PORT": "1", "A": "=b"}))
    assert env["MASTER_PORT"] == {"name": "MASTER_PORT", "value": "1"}
    assert env["A"]["value"] == "=b"


def test_command_and_environment_are_what_was_given():
    words = ["echo", "a$$b $(RANK)", "", "-n", "two\nlines"]
    gang = Gang("train", words, environment={"A": "$(RANK) $$ $HOME"}, working_directory="/tmp/$(RANK)$$")
    container = container_of(gang)
    assert [expand(word, {"RANK": "0"}) for word in container["command"]] == words
    assert expand(environment(gang)["A"]["value"], {"RANK": "0"}) == "$(RANK) $$ $HOME"
    assert container["workingDir"] == "/tmp/$(RANK)$$"  # it is not expanded


@pytest.mark.parametrize(
    ("asked", "resources"),
    [
        ({}, None),
        ({"cpus": "2", "memory": "4Gi"}, {"requests": {"cpu": "2", "memory": "4Gi"}}),
        (
            {"cpus": "2", "cpu_limit": "4", "memory_limit": "8Gi", "gpus": 1},
            {"requests": {"cpu": "2"}, "limits": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": 1}},
        ),
        ({"gpus": 1}, {"limits": {"nvidia.com/gpu": 1}}),
    ],
)
def test_resources_are_what_was_asked_for(asked, resources):
    assert container_of(Gang("train", ["x"], **asked)).get("resources") == resources


def test_the_service_belongs_to_the_job():
    manifest = make_service(Gang("train", ["x"]), "uid-1")
    assert manifest["spec"]["clusterIP"] == "None"
    [owner] = manifest["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Job", "train", "uid-1")


ELASTIC = Gang("train", ["x"], workers=4, elastic=Bounds(2, 6))


def test_an_elastic_gang_may_be_moved_between_its_sizes():
    manifest = make_job(ELASTIC)
    assert manifest["metadata"]["annotations"] == {
        "muster.dev/elastic": "2:6",
        "muster.dev/world": '{"size":4,"epoch":1}',
    }
    assert (manifest["spec"]["completions"], manifest["spec"]["parallelism"]) == (4, 4)
    assert manifest["spec"]["backoffLimit"] == 3, "it is lost when as many have failed as it began with"
    assert "annotations" not in make_job(Gang("train", ["x"], plain=True))["metadata"]


def test_elastic_workers_find_their_world():
    env = environment(ELASTIC)
    assert env["MUSTER_WORLD"]["value"] == "/etc/muster/world"
    assert env["WORLD_SIZE"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.annotations['muster.dev/world-size']"
    pod = make_job(ELASTIC)["spec"]["template"]["spec"]
    [mount] = pod["containers"][0]["volumeMounts"]
    [volume] = pod["volumes"]
    assert (mount["name"], mount["mountPath"]) == (volume["name"], "/etc/muster")
    [file] = volume["downwardAPI"]["items"]
    assert (file["path"], file["fieldRef"]["fieldPath"]) == ("world", "metadata.annotations['muster.dev/world']")
    assert "MUSTER_WORLD" not in environment(Gang("train", ["x"]))


def test_the_controllers_have_nothing_to_add_to_a_new_elastic_gang():
    given = JOB.decode(msgspec.json.encode(make_job(ELASTIC)))
    assert world_of(given.metadata) == find_current_world(given) == World(4, 1)
    template = given.spec.template.metadata.annotations
    assert PodTemplate(given).pod(Creation(3)).metadata.annotations == template | {COMPLETION_INDEX: "3"}


LIMITED = Gang("t", ["x", "$1"], workers=2, time_limit=7200, soft_signal=SoftSignal("USR1", 60), retries=3)


def test_a_time_limit_is_that_of_each_job_and_of_each_attempt():
    assert job_of(LIMITED)["activeDeadlineSeconds"] == 7200
    assert "activeDeadlineSeconds" not in job_of(Gang("t", ["x"]))
    roles = Gang("t", roles=[Role("a", ["x"]), Role("b", ["x"])], time_limit=60)
    assert [job_of(roles, role)["activeDeadlineSeconds"] for role in range(2)] == [60, 60]


def test_what_fails_starts_anew_as_a_whole_but_not_for_want_of_time():
    policy = make_jobset(LIMITED)["spec"]["failurePolicy"]
    assert policy["maxRestarts"] == 3
    assert [(rule["action"], rule["onJobFailureReasons"]) for rule in policy["rules"]] == [
        ("FailJobSet", ["DeadlineExceeded"])
    ]
    assert make_jobset(Gang("t", ["x"], retries=1))["spec"]["failurePolicy"] == {"maxRestarts": 1}
    assert "failurePolicy" not in make_jobset(Gang("t", ["x"], retries=0))["spec"]
    assert environment(LIMITED)["MUSTER_ATTEMPT"]["valueFrom"]["fieldRef"] == {
        "fieldPath": "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"
    }


@pytest.mark.parametrize(("retries", "limit"), [(None, 3), (0, 0), (9, 9)])
def test_of_an_elastic_gang_so_many_workers_are_replaced(retries, limit):
    gang = Gang("t", ["x"], workers=4, elastic=Bounds(1, 4), retries=retries)
    assert job_of(gang)["backoffLimit"] == limit
    assert "MUSTER_ATTEMPT" not in environment(gang)


@pytest.mark.parametrize("dollars", ["$1", "$$", "$(PATH)"])
def test_the_signal_comes_to_the_program_itself_whose_exit_code_and_input_stay(dollars):
    script = "read line; trap 'echo $line got; exit 7' USR1; while :; do sleep 0.05; done"
    gang = Gang("t", ["sh", "-c", script, dollars], time_limit=4, soft_signal=SoftSignal("USR1", 1))
    words = [expand(word, {}) for word in container_of(gang)["command"]]
    assert words[-1] == dollars
    done = subprocess.run(words, input="hello\n", capture_output=True, text=True, check=False, timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (7, "hello got\n", "")


def test_nothing_of_the_signal_keeps_who_reads_the_output_waiting():
    gang = Gang("t", ["echo", "done"], time_limit=100_000, soft_signal=SoftSignal("USR1", 1))
    words = [expand(word, {}) for word in container_of(gang)["command"]]
    echo = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert echo.communicate(timeout=20)[0] == "done\n"
    finally:
        os.killpg(echo.pid, signal.SIGKILL)


def test_on_nodes_of_its_own_no_pods_of_other_jobs_are_wanted():
    spec = job_of(Gang("t", ["x"], exclusive=True))["template"]["spec"]
    [term] = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert (term["topologyKey"], term["namespaceSelector"]) == ("kubernetes.io/hostname", {})
    assert term["labelSelector"]["matchExpressions"] == [
        {"key": "batch.kubernetes.io/job-name", "operator": "Exists"},
        {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "NotIn", "values": ["t"]},
    ]


@pytest.mark.parametrize("elastic", [None, Bounds(1, 2)])
def test_labels_and_annotations_are_of_the_job_and_its_pods_and_ours_stay(elastic):
    gang = Gang("t", ["x"], queue="q", elastic=elastic, labels={"a": "b"}, annotations={"c": "d"}, run_time="9s")
    whole = make_job(gang)["metadata"] if elastic else make_jobset(gang)["metadata"]
    assert whole["labels"] == {"a": "b", "kueue.x-k8s.io/queue-name": "q"}
    assert whole["annotations"]["c"] == "d"
    pods = job_of(gang)["template"]["metadata"]
    assert pods["labels"] == {"a": "b"}
    assert pods["annotations"].items() >= {"c": "d", "muster.dev/run-time": "9s"}.items()


def test_secrets_are_referred_to_and_what_is_said_wins():
    gang = Gang(
        "t",
        ["x"],
        secrets=[SecretVariables("all"), SecretVariables("one", "KEY"), SecretVariables("one", "B")],
        environment={"B": "1"},
    )
    assert container_of(gang)["envFrom"] == [{"secretRef": {"name": "all"}}]
    assert environment(gang)["KEY"]["valueFrom"] == {"secretKeyRef": {"name": "one", "key": "KEY"}}
    assert environment(gang)["B"] == {"name": "B", "value": "1"}


DISRUPTED = [{"type": "DisruptionTarget"}]


@pytest.mark.parametrize(
    ("gang", "action"),
    [
        (Gang("x", ["x"], workers=2, upstream=True), "FailJob"),
        (Gang("x", ["x"], elastic=Bounds(1, 2), upstream=True), "Ignore"),
        (Gang("x", ["x"], plain=True, upstream=True), "Ignore"),
    ],
)
def test_the_job_controller_of_kubernetes_is_told_not_to_count_interruptions(gang, action):
    [rule] = job_of(gang)["podFailurePolicy"]["rules"]
    assert rule == {"action": action, "onPodConditions": DISRUPTED}
    assert "podFailurePolicy" not in job_of(structs.replace(gang, upstream=False))


@pytest.mark.parametrize("retries", [None, 0, 3])
def test_a_jobset_of_kubernetes_starts_again_whole_after_an_interruption(retries):
    policy = make_jobset(Gang("x", ["x"], workers=2, retries=retries, time_limit=9, upstream=True))["spec"][
        "failurePolicy"
    ]
    assert policy["maxRestarts"] == (retries or 0)
    assert [(rule["action"], rule["onJobFailureReasons"]) for rule in policy["rules"]] == [
        ("RestartJobSetAndIgnoreMaxRestarts", ["PodFailurePolicy"]),
        ("FailJobSet", ["DeadlineExceeded"]),
    ]


def test_a_gang_with_a_schedule_is_a_cronjob_whose_jobs_have_the_queue():
    gang = Gang("tick", ["x"], workers=2, schedule="0 3 * * *", queue="q", labels={"a": "b"}, annotations={"c": "d"})
    manifest = cron_job(gang)
    DEFAULTS[CRON_JOB.resource](manifest)
    assert app_rules.CRON_JOB.create(CRON_JOB.typed(manifest)) == []
    assert manifest["metadata"]["labels"] == {"a": "b"}
    spec = manifest["spec"]
    assert (spec["schedule"], spec["concurrencyPolicy"]) == ("0 3 * * *", "Forbid")
    template = spec["jobTemplate"]
    labels = {"a": "b", "kueue.x-k8s.io/queue-name": "q"}
    assert template["metadata"] == {"labels": labels, "annotations": {"c": "d"}}
    pods = template["spec"]["template"]
    assert pods["metadata"] == {"labels": {"a": "b", "muster.dev/cronjob": "tick"}, "annotations": {"c": "d"}}
    assert template["spec"]["parallelism"] == 2


def test_its_workers_find_those_of_the_same_start():
    gang = Gang("tick", ["x"], workers=2, schedule="@daily")
    variables = environment(gang)
    label = "metadata.labels['batch.kubernetes.io/job-name']"
    assert variables["MUSTER_JOB"]["valueFrom"]["fieldRef"]["fieldPath"] == label
    assert list(variables).index("MUSTER_JOB") < list(variables).index("MASTER_ADDR")
    assert expand(variables["MASTER_ADDR"]["value"], {"MUSTER_JOB": "tick-7"}) == "tick-7-0.tick"
    assert make_service(gang, "1")["spec"]["selector"] == {"muster.dev/cronjob": "tick"}
    assert make_service(gang, "1")["metadata"]["ownerReferences"][0]["kind"] == "CronJob"

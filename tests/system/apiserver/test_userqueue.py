"""The queue of a user's jobs that name none, work that has to be in a team's queue, and limits of what waits."""

import pytest
from tests.system.apiserver.harness import JOBS, PODS, api

from muster.api.ours.teams import FOLLOWS_NODES, QUEUE_USERS, QUOTA_OF, USER_LIMITS, WITHOUT_TEAM
from muster.api.ours.users import USER_QUEUE_ANNOTATION, USERS_NAMESPACE
from muster.cluster.apiserver.identity.users import AUTHENTICATED, User, account_name

QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
LOCAL_QUEUES = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/localqueues"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
QUEUE = "kueue.x-k8s.io/queue-name"
ADA, BOB = (User(account_name(USERS_NAMESPACE, name), frozenset({AUTHENTICATED})) for name in ("ada", "bob"))
POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}


def job(queue="", gpus=0, name=""):
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}}
    labels = {QUEUE: queue} if queue else {}
    meta = {"name": name} if name else {"generateName": "j-"}
    return {"metadata": meta | {"labels": labels}, "spec": {"template": {"spec": POD | {"containers": [container]}}}}


class Box:
    """A server with the shared queue, teams, and users who may do everything in namespace `default`."""

    def __init__(self, api):
        self.api = api

    async def start(self, **shared):
        await self.api.made("/api/v1/namespaces", {"metadata": {"name": USERS_NAMESPACE}})
        rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        await self.api.made(f"{RBAC}/clusterroles", {"metadata": {"name": "r"}, "rules": [rule]})
        users = [{"kind": "User", "name": user.name} for user in (ADA, BOB)]
        role = {"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": users}
        await self.api.made(f"{RBAC}/clusterrolebindings", role)
        await self.queue("muster-default", "default", {FOLLOWS_NODES: "true"} | shared)
        return self

    async def queue(self, name, local="", annotations=None):
        await self.api.made(QUEUES, {"metadata": {"name": name, "annotations": annotations or {}}, "spec": {}})
        document = {"metadata": {"name": local or name}, "spec": {"clusterQueue": name}}
        await self.api.made(LOCAL_QUEUES, document)

    async def team(self, name, users, **annotations):
        await self.queue(name, annotations={QUEUE_USERS: users, QUOTA_OF: "muster-default"} | annotations)

    async def lands(self, user, **about):
        answer = await self.api.call("POST", JOBS, job(**about), user=user)
        return answer.json["metadata"]["labels"].get(QUEUE) if answer.status == 201 else answer.message


def test_a_user_lands_in_the_oldest_team():
    @api
    async def story(api):
        box = await Box(api).start()
        await box.team("vision", "ada,bob")
        await api.clock.sleep(2)
        await box.team("speech", "bob,ada")
        assert await box.lands(ADA) == "vision"
        assert await box.lands(ADA, queue="speech") == "speech"
        account = {"metadata": {"name": "ada", "annotations": {USER_QUEUE_ANNOTATION: "speech"}}}
        await api.made(f"/api/v1/namespaces/{USERS_NAMESPACE}/serviceaccounts", account)
        assert await box.lands(ADA) == "speech"

    story()


def test_a_user_of_no_team_is_told_whom_to_ask():
    @api
    async def story(api):
        box = await Box(api).start()
        assert await box.lands(BOB) == "default"
        await box.team("vision", "ada")
        why = "user bob is in no team, and other work does not run here; an administrator may run: "
        said = await box.lands(BOB, name="j")
        assert said == f'jobs.batch "j" is forbidden: {why}muster queue edit vision --add-users bob'
        said = await box.lands(ADA, queue="default")
        assert said.endswith("work outside the queues of teams does not run here: use queue vision")
        said = await box.lands(BOB, queue="vision", name="j")
        advice = "an administrator may run: muster queue edit vision --add-users bob"
        assert said == f'jobs.batch "j" is forbidden: queue vision is for ada, and not for bob; {advice}'
        admin = await api.call("POST", JOBS, job())
        assert admin.json["metadata"]["labels"][QUEUE] == "default"

    story()


@pytest.mark.parametrize(("setting", "runs"), [("true", True), ("false", False)])
def test_one_setting_says_whether_other_work_runs(setting, runs):
    @api
    async def story(api):
        box = await Box(api).start(**{WITHOUT_TEAM: setting})
        assert (await box.lands(BOB) == "default") == runs
        await box.team("vision", "ada")
        assert (await box.lands(BOB) == "default") == runs

    story()


def test_there_is_no_way_around():
    @api
    async def story(api):
        box = await Box(api).start()
        await box.team("vision", "ada")
        await api.made(
            LOCAL_QUEUES, {"metadata": {"name": "mine"}, "spec": {"clusterQueue": "muster-default"}}, user=BOB
        )
        cron = {"metadata": {"name": "c"}, "spec": {"schedule": "@daily", "jobTemplate": {"spec": job()["spec"]}}}
        workload = {"podSets": [{"name": "main", "count": 1, "template": {"spec": POD}}], "queueName": "mine"}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "no", "uid": "u", "controller": True}
        for path, document in (
            (PODS, {"metadata": {"name": "p"}, "spec": POD}),
            (PODS, {"metadata": {"name": "p", "ownerReferences": [owner]}, "spec": POD}),
            (CRON_JOBS, cron),
            (JOBS, job("mine")),
            (WORKLOADS, {"metadata": {"name": "w"}, "spec": workload}),
        ):
            answer = await api.call("POST", path, document, user=BOB)
            assert (answer.status, "in no team" in answer.message) == (403, True), path
        await api.made(JOBS, job("nowhere", name="j"), user=BOB)
        moved = await api.merge(f"{JOBS}/j", {"metadata": {"labels": {QUEUE: "mine"}}}, user=BOB)
        assert (moved.status, "in no team" in moved.message) == (403, True)

    story()


def test_a_job_that_says_that_another_runs_it_lends_no_quota_either():
    @api
    async def story(api):
        box = await Box(api).start()
        await box.team("vision", "ada")
        rule = {"apiGroups": ["", "batch"], "resources": ["pods", "jobs"], "verbs": ["*"]}
        await api.merge(f"{RBAC}/clusterroles/r", {"rules": [rule]})
        foreign = job("vision", name="small")
        foreign["spec"]["managedBy"] = "example.com/mine"
        made = await api.made(JOBS, foreign, user=ADA)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "small", "uid": made["metadata"]["uid"]}
        meta = {"name": "p", "labels": {QUEUE: "vision"}, "ownerReferences": [owner | {"controller": True}]}
        answer = await api.call("POST", PODS, {"metadata": meta, "spec": POD}, user=ADA)
        assert answer.status == 403
        assert "cannot be its controller" in answer.message
        await api.made(PODS, {"metadata": meta, "spec": POD})  # whoever may decide on quota

    story()


@pytest.mark.parametrize("kind", ["Job", "JobSet"])
def test_no_pod_runs_on_the_quota_of_a_job_that_it_is_no_part_of(kind):
    @api
    async def story(api):
        box = await Box(api).start()
        await box.team("vision", "ada")
        if kind == "Job":
            made = await api.made(JOBS, job("vision", name="small"), user=ADA)
        else:
            roles = [{"name": "r", "template": {"spec": job()["spec"]}}]
            document = {"metadata": {"name": "small", "labels": {QUEUE: "vision"}}, "spec": {"replicatedJobs": roles}}
            made = await api.made(JOBSETS, document, user=ADA)
        owner = {"apiVersion": made["apiVersion"], "kind": kind, "name": "small", "controller": True}
        owner |= {"uid": made["metadata"]["uid"]}
        why = f"{kind} small cannot be its controller: the server alone makes the parts of that {kind}, on its quota"
        meta = {"name": "p", "labels": {QUEUE: "vision"}, "ownerReferences": [owner]}
        pod, large = {"metadata": meta, "spec": POD}, job("vision", 8, "p")
        large["metadata"]["ownerReferences"] = [owner]
        for path, document in ((PODS, pod), (JOBS, large)):
            answer = await api.call("POST", path, document, user=ADA)
            assert (answer.status, answer.message.endswith(why)) == (403, True), path
        plain = {"metadata": meta | {"ownerReferences": [owner | {"controller": False}]}, "spec": POD}
        await api.made(PODS, plain, user=ADA)
        change = {"metadata": {"ownerReferences": [owner]}}
        moved = await api.merge(f"{PODS}/p", change, user=ADA)
        assert (moved.status, moved.message.endswith(why)) == (403, True)
        gone = {"metadata": meta | {"name": "q", "ownerReferences": [owner | {"uid": "another"}]}, "spec": POD}
        waiting = await api.made(PODS, gone, user=ADA)
        assert waiting["spec"]["schedulingGates"], "it queues by itself"
        assert (await api.merge(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, user=ADA)).status == 200
        await api.made(PODS, pod | {"metadata": meta | {"name": "r"}})  # the controllers themselves

    story()


def test_a_user_has_so_many_jobs_in_line():
    @api
    async def story(api):
        box = await Box(api).start()
        await box.team("vision", "ada,bob", **{USER_LIMITS: "waiting-jobs=2"})
        assert [await box.lands(ADA), await box.lands(ADA, name="second")] == ["vision", "vision"]
        why = "ada has 2 waiting jobs in ClusterQueue vision, and each user may have 2 in line"
        assert (await box.lands(ADA, name="j")) == f'jobs.batch "j" is forbidden: {why}'
        assert await box.lands(BOB) == "vision"
        await api.call("DELETE", f"{JOBS}/second")
        assert await box.lands(ADA) == "vision"

    story()


def test_a_job_that_changes_its_queue_is_new_in_the_line():
    @api
    async def story(api):
        box = await Box(api).start()
        await box.team("vision", "ada", **{USER_LIMITS: "waiting-jobs=1"})
        await box.team("speech", "ada")
        assert await box.lands(ADA, name="first", queue="vision") == "vision"
        assert await box.lands(ADA, name="second", queue="speech") == "speech"
        move = {"metadata": {"labels": {QUEUE: "vision"}}}
        moved = await api.merge(f"{JOBS}/second", move, user=ADA)
        why = "ada has 1 waiting job in ClusterQueue vision, and each user may have 1 in line"
        assert (moved.status, moved.message) == (403, f'jobs.batch "second" is forbidden: {why}')
        await api.call("DELETE", f"{JOBS}/first")
        assert (await api.merge(f"{JOBS}/second", move, user=ADA)).status == 200
        labelled = await api.merge(f"{JOBS}/second", {"metadata": {"labels": {"note": "x"}}}, user=ADA)
        assert labelled.status == 200

    story()


def test_another_local_queue_of_the_same_line_counts_nothing():
    @api
    async def story(api):
        box = await Box(api).start()
        await box.team("vision", "ada", **{USER_LIMITS: "waiting-jobs=1"})
        await api.made(LOCAL_QUEUES, {"metadata": {"name": "also"}, "spec": {"clusterQueue": "vision"}})
        assert await box.lands(ADA, name="first") == "vision"
        assert (await api.merge(f"{JOBS}/first", {"metadata": {"labels": {QUEUE: "also"}}}, user=ADA)).status == 200

    story()


def test_a_user_has_so_many_gpus_in_line():
    @api
    async def story(api):
        box = await Box(api).start()
        await box.team("vision", "ada", **{USER_LIMITS: "waiting-gpus=4"})
        assert await box.lands(ADA, gpus=3) == "vision"
        assert (await box.lands(ADA, gpus=2)).endswith(
            "the waiting jobs of ada in ClusterQueue vision ask for 3 GPUs, this one asks for 2, "
            "and each user may have 4 in line"
        )
        assert await box.lands(ADA) == "vision"

    story()

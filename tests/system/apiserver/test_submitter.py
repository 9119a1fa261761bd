"""Who submitted a job, as the server says it of its own knowledge."""

import pytest
from tests.system.apiserver.harness import JOBS, PODS, api

from muster.api.ours.submitter import SUBMITTER_ANNOTATION
from muster.cluster.apiserver.identity.users import AUTHENTICATED, MASTERS, User

RBAC = "/apis/rbac.authorization.k8s.io/v1"
SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
EVE = User("eve", frozenset({AUTHENTICATED}))
POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
CALLED_ADA = {"annotations": {SUBMITTER_ANNOTATION: "ada"}}


def job(**meta):
    return {"metadata": {"name": "j", **meta}, "spec": {"suspend": True, "template": POD}}


def jobset(**meta):
    role = {"name": "w", "template": {"spec": {"template": POD}}}
    return {"metadata": {"name": "j", **meta}, "spec": {"suspend": True, "replicatedJobs": [role]}}


def cron_job(**meta):
    template = {"spec": {"template": POD}}
    return {"metadata": {"name": "j", **meta}, "spec": {"schedule": "@daily", "jobTemplate": template}}


def pod(**meta):
    return {"metadata": {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "q"}, **meta}, **POD}


def workload(**meta):
    pod_set = {"name": "main", "count": 1, "template": {"spec": POD["spec"]}}
    return {"metadata": {"name": "j", **meta}, "spec": {"podSets": [pod_set]}}


def said(obj):
    return obj["metadata"].get("annotations", {}).get(SUBMITTER_ANNOTATION)


async def let_eve_edit(api):
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    await api.made(f"{RBAC}/clusterroles", {"metadata": {"name": "r"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "name": "eve"}],
    }
    await api.made(f"{RBAC}/clusterrolebindings", binding)


@pytest.mark.parametrize(
    ("path", "thing"), [(JOBS, job), (SETS, jobset), (CRON_JOBS, cron_job), (PODS, pod), (WORKLOADS, workload)]
)
def test_a_user_cannot_pass_for_another(path, thing):
    @api
    async def story(api):
        await let_eve_edit(api)
        assert said(await api.made(path, thing(**CALLED_ADA), user=EVE)) == "eve"
        changed = await api.merge(f"{path}/j", {"metadata": CALLED_ADA}, user=EVE)
        assert (changed.status, said(changed.json)) == (200, "eve")
        changed = await api.merge(f"{path}/j", {"metadata": {"annotations": None}}, user=EVE)
        assert (changed.status, said(changed.json)) == (200, "eve")
        changed = await api.merge(f"{path}/j/status", {"metadata": CALLED_ADA, "status": {}}, user=EVE)
        assert (changed.status, said(changed.json)) == (200, "eve")

    story()


@api
async def test_who_may_do_everything_may_say_who_it_was(api):
    assert said(await api.made(JOBS, job(**CALLED_ADA))) == "ada"
    assert said(await api.made(JOBS, job(name="other"))) == "kubernetes-admin"
    changed = await api.merge(f"{JOBS}/j", {"metadata": {"annotations": {SUBMITTER_ANNOTATION: "bob"}}})
    assert said(changed.json) == "ada"


@api
async def test_what_belongs_to_another_object_was_submitted_by_none(api):
    await let_eve_edit(api)
    owner = {"apiVersion": "v1", "kind": "Thing", "name": "t", "uid": "u", "controller": True}
    assert said(await api.made(JOBS, job(ownerReferences=[owner], **CALLED_ADA), user=EVE)) is None
    assert said(await api.made(PODS, {"metadata": {"name": "plain", **CALLED_ADA}, **POD}, user=EVE)) is None


@api
async def test_a_user_who_changes_the_template_of_a_cron_job_is_its_submitter(api):
    await let_eve_edit(api)
    await api.made(CRON_JOBS, cron_job())
    replaced = await api.put(f"{CRON_JOBS}/j", cron_job(), user=EVE)
    assert (replaced.status, said(replaced.json)) == (200, "kubernetes-admin"), "the template is the same"
    changed = await api.merge(f"{CRON_JOBS}/j", {"spec": {"suspend": True, "schedule": "@weekly"}}, user=EVE)
    assert (changed.status, said(changed.json)) == (200, "kubernetes-admin")
    status = {"status": {}, "spec": {"jobTemplate": {"spec": {"parallelism": 2}}}}
    changed = await api.merge(f"{CRON_JOBS}/j/status", status, user=EVE)
    assert (changed.status, said(changed.json)) == (200, "kubernetes-admin")
    template = {"spec": {"jobTemplate": {"spec": {"parallelism": 2}}, "schedule": "@daily"}}
    changed = await api.merge(f"{CRON_JOBS}/j", template | {"metadata": CALLED_ADA}, user=EVE)
    assert (changed.status, said(changed.json)) == (200, "eve")
    changed = await api.merge(f"{CRON_JOBS}/j", {"metadata": CALLED_ADA, "spec": {"suspend": True}})
    assert said(changed.json) == "eve"
    template = {"spec": {"jobTemplate": {"spec": {"parallelism": 3}}}}
    assert said((await api.merge(f"{CRON_JOBS}/j", template | {"metadata": CALLED_ADA})).json) == "ada"


@api
async def test_a_job_that_a_user_makes_from_a_cron_job_is_the_users(api):
    await let_eve_edit(api)
    uid = (await api.made(CRON_JOBS, cron_job()))["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "j", "uid": uid, "controller": True}
    meta = {"ownerReferences": [owner], **CALLED_ADA}
    assert said(await api.made(JOBS, job(**meta), user=EVE)) == "eve"
    controller = User("system:muster", frozenset({MASTERS, AUTHENTICATED}))
    assert said(await api.made(JOBS, job(**meta | {"name": "named"}), user=controller)) == "ada"
    unnamed = job(name="unnamed", ownerReferences=[owner])
    assert said(await api.made(JOBS, unnamed, user=controller)) is None


@api
async def test_what_a_controller_makes_of_a_template_names_nobody(api):
    """Whoever writes a JobSet writes the annotations of its Jobs, too."""
    controller = User("system:muster", frozenset({MASTERS, AUTHENTICATED}))
    uid = (await api.made(SETS, jobset(name="s")))["metadata"]["uid"]
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": uid, "controller": True}
    assert said(await api.made(JOBS, job(ownerReferences=[owner], **CALLED_ADA), user=controller)) is None


@api
async def test_the_engine_names_the_submitter_of_a_workload_and_a_user_does_not(api):
    await let_eve_edit(api)
    controller = User("system:muster", frozenset({MASTERS, AUTHENTICATED}))
    uid = (await api.made(SETS, jobset(name="s")))["metadata"]["uid"]
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": uid, "controller": True}
    meta = {"ownerReferences": [owner], **CALLED_ADA}
    assert said(await api.made(WORKLOADS, workload(**meta), user=controller)) == "ada"
    assert said(await api.made(WORKLOADS, workload(**meta | {"name": "other"}), user=EVE)) is None

"""Pods of Volcano's Jobs, with what plugins and volumes add to them."""

from typing import Any

import msgspec

from muster.api.defaults.volcano import default_volcano_job
from muster.api.volcano import Job
from muster.jobs.volcano.pods import make_hosts, make_pod


def job(tasks: list[dict[str, Any]], **spec: Any) -> Job:
    document = {"metadata": {"name": "j", "namespace": "n", "uid": "u"}, "spec": {"tasks": tasks, **spec}}
    default_volcano_job(document)
    return msgspec.convert(document, Job)


def task(name: str, replicas: int = 1, **pod: Any) -> dict[str, Any]:
    spec = {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}], **pod}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def variables(of: Job, place: int, index: int = 0) -> dict[str, str]:
    (container,) = make_pod(of, of.spec.tasks[place], index).spec.containers
    return {one.name: one.value for one in container.env if one.value_from is None}


def test_the_users_own_variables_win() -> None:
    mine: Any = {"containers": [{"name": "c", "env": [{"name": "VC_TASK_INDEX", "value": "mine"}]}]}
    assert variables(job([task("w", **mine)], plugins={"env": []}), 0) == {
        "VC_TASK_INDEX": "mine",
        "VK_TASK_INDEX": "0",
    }


def test_hosts_are_in_every_container() -> None:
    it = job([task("w")], plugins={"svc": []})
    spec = make_pod(it, it.spec.tasks[0], 0).spec
    for container in (*spec.init_containers, *spec.containers):
        assert [mount.mount_path for mount in container.volume_mounts] == ["/etc/volcano"]
        assert [one.name for one in container.env] == ["VC_W_HOSTS", "VC_W_NUM"]


def test_variables_of_hosts_can_be_left_out() -> None:
    it = job([task("w")], plugins={"svc": ["--inject-hosts-env=false"]})
    assert make_pod(it, it.spec.tasks[0], 0).spec.containers[0].env == ()


def test_a_task_with_a_host_name_of_its_own_has_that_one() -> None:
    it = job([task("w", 3, hostname="db", subdomain="net")], plugins={"svc": []})
    assert make_hosts(it)["VC_W_HOSTS"] == "db.net"
    assert make_pod(it, it.spec.tasks[0], 0).spec.hostname == "db"


def test_ranks_are_those_of_torch() -> None:
    it = job([task("master"), task("worker", 2), task("other")], plugins={"pytorch": ["--port=1234"]})
    group = {"MASTER_ADDR": "j-master-0.j", "MASTER_PORT": "1234", "WORLD_SIZE": "3"}
    assert variables(it, 0) == group | {"RANK": "0"}
    assert variables(it, 1, 1) == group | {"RANK": "2"}
    assert variables(it, 2) == group
    (container,) = make_pod(it, it.spec.tasks[0], 0).spec.containers
    assert [port.container_port for port in container.ports] == [1234]


def test_the_address_of_a_master_is_its_first_host_whatever_name_that_has() -> None:
    def address(master: dict[str, Any]) -> str:
        return variables(job([master, task("worker")], plugins={"pytorch": []}), 1)["MASTER_ADDR"]

    assert address(task("master", 3)) == "j-master-0.j"
    assert address(task("master", 3, hostname="db", subdomain="net")) == "db.net"
    assert address(task("master", 0)) == ""


def test_a_task_that_is_master_and_worker_has_ranks_from_zero() -> None:
    it = job([task("w", 2)], plugins={"pytorch": ["--master=w", "--worker=w"]})
    assert [variables(it, 0, index)["RANK"] for index in range(2)] == ["0", "1"]
    assert variables(it, 0)["WORLD_SIZE"] == "2"


def test_volumes_are_claims_that_are_there_or_the_jobs_own() -> None:
    volumes = [{"mountPath": "/a", "volumeClaimName": "mine"}, {"mountPath": "/b", "volumeClaim": {}}]
    it = job([task("w")], volumes=volumes)
    spec = make_pod(it, it.spec.tasks[0], 0).spec
    claims = [one.persistent_volume_claim.claim_name for one in spec.volumes if one.persistent_volume_claim]
    assert claims == ["mine", "j-volume-1"]
    assert [mount.mount_path for mount in spec.containers[0].volume_mounts] == ["/a", "/b"]


def test_scheduler_and_priority_are_the_jobs_where_the_template_has_none() -> None:
    it = job([task("a"), task("b", schedulerName="mine", priorityClassName="low")], priorityClassName="high")
    first, second = (make_pod(it, each, 0).spec for each in it.spec.tasks)
    assert (first.scheduler_name, first.priority_class_name) == ("volcano", "high")
    assert (second.scheduler_name, second.priority_class_name) == ("mine", "low")

"""The files of a container's cgroups, in directories that stand for the kernel's; tests/e2e has real ones of v1."""

import errno
import os
from pathlib import Path

import pytest

from muster.cluster.nodes.machine.cgroups import (
    Cgroups,
    Root,
    list_limits,
    name_group,
    prepare,
    remove_leftovers,
    weigh,
)

BOTH = frozenset({"cpu", "memory"})


@pytest.fixture
def pod(make_pod):
    resources = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1500m", "memory": "64Mi"}}
    beside = {"name": "beside", "resources": {"requests": {"cpu": "1"}}}
    return make_pod({"containers": [{"name": "main", "resources": resources}, beside]}, uid="uid")


@pytest.fixture
def container(pod):
    return pod.spec.containers[0]


@pytest.mark.parametrize(
    ("resources", "files"),
    [
        ({}, {"cpu.weight": "1"}),
        ({"limits": {"cpu": "1500m"}}, {"cpu.max": "150000 100000", "cpu.weight": "59"}),
        ({"limits": {"cpu": "1m"}}, {"cpu.max": "1000 100000", "cpu.weight": "1"}),
        (
            {"limits": {"memory": "1Gi"}},
            {"memory.max": "1073741824", "memory.oom.group": "1", "memory.swap.max": "0", "cpu.weight": "1"},
        ),
        ({"requests": {"cpu": "2", "memory": "1Gi"}}, {"cpu.weight": "79"}),
    ],
)
def test_limits_as_files_of_a_cgroup(make_pod, resources, files):
    pod = make_pod({"containers": [{"name": "main", "resources": resources}]})
    assert list_limits(pod.spec.containers[0], Root(Path("/"), BOTH)) == files


@pytest.mark.parametrize(
    ("cpu", "shares", "weight"),
    [(0, 2, 1), (1, 2, 1), (1000, 1024, 39), (64_000, 65536, 2500), (10**6, 262144, 10000)],
)
def test_weights_keep_within_what_the_kernel_takes(cpu, shares, weight):
    assert weigh(cpu, Root(Path("/"), BOTH)) == {"cpu.weight": str(weight)}
    assert weigh(cpu, Root(Path("/"), BOTH, version=1)) == {"cpu.shares": str(shares)}
    assert weigh(cpu, Root(Path("/"), frozenset({"memory"}))) == {}


@pytest.fixture
def hierarchy(tmp_path):
    """What looks like a cgroup v2 file system."""
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (tmp_path / "own").write_text("1:name=systemd:/\n0::/\n")
    return tmp_path


def test_cgroups_are_made_and_removed(hierarchy, pod, container):
    found = prepare("muster", hierarchy, hierarchy / "own")
    assert not isinstance(found, str)
    [made] = found.make(pod, container)
    assert (made / "cpu.max").read_text() == "150000 100000"
    assert not (made / "memory.swap.max").exists(), "the kernel does not account for swap"
    assert (hierarchy / "muster/uid/cgroup.subtree_control").read_text() == "+cpu +memory"
    # Pods compete with one another by all that their containers request, and the containers of a pod by their own.
    assert (hierarchy / "muster/uid/cpu.weight").read_text() == "59"
    assert (made / "cpu.weight").read_text() == "20"
    assert found.paths("uid", "main") == (made,)
    for path in sorted((hierarchy / "muster").rglob("*"), reverse=True):
        if path.is_file():
            path.unlink()  # the kernel's files go with their directory
    found.remove("unknown")


@pytest.mark.parametrize(
    ("controllers", "own", "why"),
    [
        (None, "0::/\n", "there is no cgroup v2 hierarchy"),
        ("cpuset io pids\n", "0::/\n", "the cgroup has none of the controllers cpu, memory: a service ("),
    ],
)
def test_why_there_are_no_cgroups(tmp_path, controllers, own, why):
    if controllers is not None:
        (tmp_path / "cgroup.controllers").write_text(controllers)
    (tmp_path / "own").write_text(own)
    found = prepare("muster", tmp_path, tmp_path / "own")
    assert isinstance(found, str)
    assert found.startswith(why)


def test_what_cannot_be_limited_by_v2_is_limited_otherwise(tmp_path, pod, container):
    """systemd before 253 delegates the memory and not the CPU to a user."""
    (tmp_path / "cgroup.controllers").write_text("memory pids\n")
    (tmp_path / "own").write_text("0::/\n")
    found = prepare("muster", tmp_path, tmp_path / "own")
    assert isinstance(found, Cgroups)
    assert (found.has("memory"), found.has("cpu")) == (True, False)
    [made] = found.make(pod, container)
    assert (tmp_path / "muster/cgroup.subtree_control").read_text() == "+memory"
    assert sorted(path.name for path in made.iterdir()) == ["memory.max", "memory.oom.group"]


def test_a_node_whose_cgroup_somebody_removed_makes_it_again(hierarchy, pod, container):
    found = prepare("muster", hierarchy, hierarchy / "own")
    assert isinstance(found, Cgroups)
    (hierarchy / "muster/cgroup.subtree_control").unlink()
    (hierarchy / "muster").rmdir()
    [made] = found.make(pod, container)
    assert (hierarchy / "muster/cgroup.subtree_control").read_text() == "+cpu +memory"
    assert made.is_dir()


def make_service(hierarchy, group):
    """Make the cgroup of a service to which systemd delegates nothing, and let it hold this process."""
    service = hierarchy / group
    service.mkdir(parents=True)
    (service / "cgroup.controllers").write_text("cpu memory pids")
    (hierarchy / "own").write_text(f"0::/{group}\n")
    return service


@pytest.mark.parametrize("group", ["system.slice/muster.service", "system.slice/cron.service"])
def test_a_service_whose_own_cgroup_holds_the_server_gets_its_limits_at_the_top(hierarchy, pod, container, group):
    """systemd could not start the service again beside them: the kernel takes no process into such a cgroup."""
    service = make_service(hierarchy, group)
    for _start in range(2):  # the second is that of a server that was killed
        groups = prepare("node", hierarchy, hierarchy / "own")
        assert isinstance(groups, Cgroups)
        assert groups.make(pod, container) == (hierarchy / "node/uid/main",)
    assert (hierarchy / "node/uid/main/memory.max").read_text() == str(64 << 20)
    assert [path.name for path in service.iterdir()] == ["cgroup.controllers"]


def test_a_service_without_rights_at_the_top_gets_no_cgroups(hierarchy):
    service = make_service(hierarchy, "user.slice/muster.service")
    (hierarchy / "node").touch()  # in place of the directory, as root may write everywhere
    why = prepare("node", hierarchy, hierarchy / "own")
    assert isinstance(why, str)
    assert why.startswith(
        f"systemd lets no server start again beside running pods in {service.name}, "
        f"and cgroups cannot be made in {hierarchy} (File exists): a service (`muster service install`)"
    )
    assert [path.name for path in service.iterdir()] == ["cgroup.controllers"]


def test_a_server_whose_own_cgroup_the_mount_does_not_show_gets_none(hierarchy):
    """A process that somebody has put into a container has a cgroup outside that of the container."""
    (hierarchy / "own").write_text("0::/../session-1.scope\n")
    why = prepare("node", hierarchy, hierarchy / "own")
    assert isinstance(why, str)
    assert "(No such file or directory)" in why


@pytest.mark.parametrize(("refused", "left"), [("+cpu", "memory"), ("+memory", "cpu")])
def test_what_the_kernel_does_not_enable_is_limited_otherwise(hierarchy, monkeypatch, refused, left):
    """Some kernels keep the controller of the CPU for themselves while a process has a realtime priority."""
    write = Path.write_text

    def refuse(path, text, *args, **kwargs):
        if path == hierarchy / "cgroup.subtree_control" and refused in text:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return write(path, text, *args, **kwargs)

    monkeypatch.setattr(Path, "write_text", refuse)  # stands for the kernel
    groups = prepare("node", hierarchy, hierarchy / "own")
    assert isinstance(groups, Cgroups)
    assert [name for name in ("cpu", "memory") if groups.has(name)] == [left]
    assert (hierarchy / "node/cgroup.subtree_control").read_text() == f"+{left}"
    refused = "+"
    why = prepare("node", hierarchy, hierarchy / "own")
    assert isinstance(why, str)
    assert why.startswith(f"cgroups cannot be made in {hierarchy} (Invalid argument): ")


def test_a_killed_servers_cgroups_go_and_those_of_another_server_stay(tmp_path):
    """The tops of all hierarchies are looked at; files in the groups would stand for processes."""
    tops = [tmp_path, tmp_path / "memory"]
    for top in tops:
        for group in ("node/uid/main", "node-of-another/uid/main"):
            (top / group).mkdir(parents=True)
    (tmp_path / "memory/node/other/main").mkdir(parents=True)
    remove_leftovers("node", ["uid", "gone"], tmp_path)
    for top in tops:
        assert not (top / "node/uid").exists()
        assert (top / "node-of-another/uid/main").exists()
    assert not (tmp_path / "node").exists()
    assert (tmp_path / "memory/node/other/main").exists(), "the pod of a server whose home has the same path"
    remove_leftovers("absent", ["uid"], tmp_path)


def test_nodes_of_two_servers_have_cgroups_of_two_names():
    assert name_group("node-0", 0xAB) == "muster-node-0-000000ab"
    assert name_group("node-0", 0xAC) != name_group("node-0", 0xAB)


def test_a_node_below_a_delegated_cgroup_moves_itself_to_a_leaf(hierarchy):
    base = hierarchy / "user.slice"
    base.mkdir()
    (base / "cgroup.controllers").write_text("cpu memory pids")
    (hierarchy / "own").write_text("0::/user.slice\n")
    assert not isinstance(prepare("muster", hierarchy, hierarchy / "own"), str)
    assert (base / "muster-server/cgroup.procs").read_text().isdigit()
    assert (base / "muster").is_dir()


def test_a_node_of_a_service_makes_its_cgroups_beside_that_of_the_server(hierarchy):
    """A server that is started again would else find its cgroup taken by those of the pods that go on."""
    service = hierarchy / "muster.service"
    (service / "muster-server").mkdir(parents=True)
    (service / "cgroup.controllers").write_text("cpu memory pids")
    (hierarchy / "own").write_text("0::/muster.service/muster-server\n")
    for node in ("node-0", "node-1"):
        assert not isinstance(prepare(node, hierarchy, hierarchy / "own"), str)
    assert sorted(path.name for path in service.iterdir() if path.is_dir()) == ["muster-server", "node-0", "node-1"]
    assert not list((service / "muster-server").iterdir())


@pytest.mark.parametrize(
    ("controllers", "files"),
    [
        (
            {"memory", "cpu"},
            {
                "memory.limit_in_bytes": str(64 << 20),
                "memory.memsw.limit_in_bytes": str(64 << 20),
                "cpu.cfs_period_us": "100000",
                "cpu.cfs_quota_us": "150000",
                "cpu.shares": "512",
            },
        ),
        ({"cpuacct"}, {}),
    ],
)
def test_what_a_container_asks_for_are_files_of_v1(container, controllers, files):
    assert list_limits(container, Root(Path("/"), frozenset(controllers), version=1)) == files


def make_hierarchy(root, name, files=()):
    directory = root / name
    directory.mkdir(parents=True)
    for file in ("cgroup.procs", *files):
        (directory / file).touch()
    return directory


def own_groups(path, *lines):
    (path / "own").write_text("".join(f"{line}\n" for line in lines))
    return path / "own"


def test_the_node_makes_its_groups_below_those_of_its_server_in_each_hierarchy_of_v1(tmp_path, pod, container):
    make_hierarchy(tmp_path, "memory/service")
    (tmp_path / "memory" / "cgroup.procs").touch()
    make_hierarchy(tmp_path, "cpu,cpuacct")
    for name in ("cpu", "cpuacct"):
        (tmp_path / name).symlink_to("cpu,cpuacct")
    own = own_groups(tmp_path, "4:memory:/service", "2:cpu,cpuacct:/not/mounted", "0::/")
    groups = prepare("node", tmp_path, own)
    assert isinstance(groups, Cgroups)
    assert (groups.version, groups.has("memory"), groups.has("cpu")) == (1, True, True)
    paths = groups.make(pod, container)
    assert paths == (tmp_path / "memory/service/node/uid/main", tmp_path / "cpu,cpuacct/node/uid/main")
    assert (paths[0] / "memory.limit_in_bytes").read_text() == str(64 << 20)
    assert not (paths[0] / "memory.memsw.limit_in_bytes").exists(), "the kernel does not account for swap"
    assert (paths[1] / "cpu.cfs_quota_us").read_text() == "150000"
    assert (paths[1].parent / "cpu.shares").read_text() == "1536", "what both containers request"


def test_the_cpu_is_given_out_otherwise_where_only_the_memory_of_v1_can_be_used(tmp_path):
    make_hierarchy(tmp_path, "memory")
    groups = prepare("node", tmp_path, own_groups(tmp_path, "4:memory:/"))
    assert isinstance(groups, Cgroups)
    assert (groups.has("memory"), groups.has("cpu")) == (True, False)


def test_a_hierarchy_that_only_measures_is_no_use(tmp_path):
    make_hierarchy(tmp_path, "cpuacct")
    assert prepare("node", tmp_path, own_groups(tmp_path, "2:cpuacct:/")) == "there is no cgroup v2 hierarchy"


def test_it_is_said_why_groups_cannot_be_made(tmp_path):
    memory = make_hierarchy(tmp_path, "memory")
    (memory / "node").touch()  # in place of the directory, as root may write everywhere
    why = prepare("node", tmp_path, own_groups(tmp_path, "4:memory:/"))
    assert why == f"cgroups cannot be made in {memory}: File exists"


def test_groups_go_with_their_pods_and_the_nodes_own_with_the_last(tmp_path):
    root = tmp_path / "node"
    for uid in ("uid", "left"):
        (root / uid / "main").mkdir(parents=True)
        (root / uid / "main" / "cgroup.procs").touch()  # stands for processes: the kernel's directory is busy
    groups = Cgroups([Root(root, frozenset({"memory"}), version=1)])
    groups.close()
    assert (root / "uid/main").exists(), "a pod that goes on has a group"
    (root / "uid/main/cgroup.procs").unlink()
    groups.remove("uid")
    groups.remove("absent")
    groups.remove("left")
    assert sorted(path.name for path in root.iterdir()) == ["left"]
    (root / "left/main/cgroup.procs").unlink()
    (root / "next/main").mkdir(parents=True)
    groups.close()
    assert sorted(path.name for path in root.iterdir()) == ["next"], "a container may be about to start there"
    groups.remove("next")
    groups.close()
    assert not root.exists(), "what could not be removed at its time is gone, too"

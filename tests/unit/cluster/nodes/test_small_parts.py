"""Probes, GPUs, admission, the node's object, and what is written of pods."""

import os
import shutil
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from muster.cluster.nodes import node_object, shims
from muster.cluster.nodes.agent import list_offered_resources
from muster.cluster.nodes.container import probes
from muster.cluster.nodes.container.probes import ProbeResult
from muster.cluster.nodes.disk import removal
from muster.cluster.nodes.disk.storage import PodRecord, Storage
from muster.cluster.nodes.gpus.device import NVIDIA, Gpu
from muster.cluster.nodes.machine import machine
from muster.cluster.nodes.pod import admission
from muster.cluster.nodes.shims import ShimRecord
from muster.cluster.nodes.wire import pod_status_patch, to_wire

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("outcomes", "thresholds", "results"),
    [
        ("-", {}, [None]),
        ("---", {}, [None, None, False]),
        ("--+--", {}, [None, None, True, True, True]),
        ("+---", {}, [True, True, True, False]),
        ("---+", {}, [None, None, False, True]),
        ("--+", {"failureThreshold": 1}, [False, False, True]),
        ("---++", {"successThreshold": 2}, [None, None, False, False, True]),
        ("+-+-+", {"failureThreshold": 2}, [True] * 5),
    ],
)
def test_a_probe_counts_equal_outcomes_in_a_row(make_pod, outcomes, thresholds, results):
    pod = make_pod({"containers": [{"name": "main", "readinessProbe": thresholds}]})
    probe = probes.list_probes(pod.spec.containers[0])[probes.READINESS]
    tally, found = ProbeResult(), []
    for outcome in outcomes:
        tally = tally.after(probe, passed=outcome == "+")
        found.append(tally.result)
    assert found == results


@pytest.mark.parametrize(
    ("requests", "refused"),
    [
        ({"cpu": "2"}, ""),
        ({"cpu": "3"}, "OutOfcpu"),
        ({"memory": "2Gi"}, "OutOfmemory"),
        ({"nvidia.com/gpu": "1"}, "OutOfnvidia.com/gpu"),
        ({"nvidia.com/gpu": "0"}, ""),
    ],
)
def test_pods_that_do_not_fit_are_refused(make_pod, requests, refused):
    def pod(requests):
        return make_pod({"containers": [{"name": "main", "resources": {"requests": requests}}]})

    there = [pod({"cpu": "2", "memory": "1Gi"})]
    found = admission.check(pod(requests), there, {"cpu": "4", "memory": "2Gi", "pods": "2"})
    assert (found.reason if found else "") == refused
    if refused == "OutOfcpu":
        assert found.message == (
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"
        )
    many = admission.check(pod({}), there * 2, {"cpu": "4", "memory": "2Gi", "pods": "2"})
    assert many.reason == "OutOfpods"


def test_what_is_required_is_always_written():
    from muster.api.core import ContainerState, ContainerStateTerminated, ContainerStatus, PodStatus

    state = ContainerState(terminated=ContainerStateTerminated())
    status = to_wire(PodStatus(container_statuses=(ContainerStatus(name="a", state=state),)))
    assert status == {
        "containerStatuses": [
            {
                "name": "a",
                "state": {"terminated": {"exitCode": 0}},
                "ready": False,
                "restartCount": 0,
                "image": "",
                "imageID": "",
            }
        ]
    }


def test_only_what_changed_is_written(make_pod):
    from muster.api.core import PodCondition, PodStatus

    before = {
        "phase": "Running",
        "reason": "old",
        "podIP": "1.2.3.4",
        "nominatedNodeName": "n",
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "Why", "message": "words"},
            {"type": "Other", "status": "True"},
            {"type": "Same", "status": "True"},
        ],
    }
    pod = make_pod(status=before)
    same = PodCondition(type="Same", status="True")
    status = PodStatus(phase="Running", pod_ip="1.2.3.5", conditions=(PodCondition(type="Ready", status="True"), same))
    assert pod_status_patch(pod, status) == {
        "status": {
            "podIP": "1.2.3.5",
            "reason": None,
            "conditions": [{"type": "Ready", "status": "True", "reason": None, "message": None}],
        },
    }
    assert pod_status_patch(pod, pod.status) is None


def test_node_conditions_keep_their_times():
    first = node_object.make_conditions((), NOW)
    later = NOW + timedelta(minutes=1)
    second = node_object.make_conditions(first, later, full_disk="the disk of /srv is full")
    assert node_object.is_same(first, node_object.make_conditions(first, later))
    assert not node_object.is_same(first, second)
    times = {c.type: (c.status, c.last_transition_time, c.last_heartbeat_time) for c in second}
    assert times["Ready"] == ("True", NOW, later)
    assert times["DiskPressure"] == ("True", later, later)
    said = {c.type: c.message for c in second}["DiskPressure"]
    assert said == "kubelet has disk pressure: the disk of /srv is full"
    down = node_object.make_conditions(second, later, problem="node is shutting down")
    assert [(c.status, c.reason, c.message) for c in down if c.type == "Ready"] == [
        ("False", "KubeletNotReady", "node is shutting down")
    ]


def test_nodes_that_share_a_machine_share_it_fairly():
    three = tuple(Gpu(NVIDIA, number) for number in range(3))
    whole = machine.Machine("host", 4000, 1 << 30, 1 << 40, three)
    parts = [machine.take_part(whole, number, 2) for number in range(2)]
    assert [part.gpus for part in parts] == [(three[0], three[2]), (three[1],)]
    assert list_offered_resources(parts[1], {"memory": "1Mi"}) == {
        "cpu": "2",
        "memory": "1Mi",
        "ephemeral-storage": "536870912Ki",
        "pods": "500",
        "nvidia.com/gpu": "1",
    }
    assert list_offered_resources(machine.take_part(whole, 0, 3), {})["cpu"] == "1333m"


@pytest.mark.parametrize(("named", "offers"), [("1", "1"), ("2", "2"), ("3", "2"), ("0", "0")])
def test_a_node_offers_no_more_gpus_than_the_machine_has(named, offers):
    two = machine.Machine("host", 4000, 1 << 30, 1 << 40, tuple(Gpu(NVIDIA, number) for number in range(2)))
    assert list_offered_resources(two, {"nvidia.com/gpu": named})["nvidia.com/gpu"] == offers
    assert list_offered_resources(two, {"amd.com/gpu": named})["amd.com/gpu"] == "0"


def test_the_machine_is_looked_at(tmp_path):
    found = machine.discover(tmp_path)
    assert found.milli_cpus > 0
    assert found.memory > 0
    assert found.disk > 0


@pytest.mark.parametrize(
    ("size", "free", "full"),
    [
        (1 << 40, 64 << 20, False),
        (1 << 40, (64 << 20) - 4096, True),
        (200 << 20, 10 << 20, False),
        (200 << 20, 0, True),
    ],
)
def test_a_disk_is_full_with_little_left_or_hardly_any_of_a_small_one(monkeypatch, tmp_path, size, free, full):
    found = SimpleNamespace(f_frsize=4096, f_blocks=size // 4096, f_bavail=free // 4096)
    monkeypatch.setattr(os, "statvfs", lambda _path: found)
    assert machine.has_full_disk(tmp_path) == full
    assert machine.find_full_disk([tmp_path]) == (f"the disk of {tmp_path} is full" if full else "")


@pytest.fixture
def storage(tmp_path):
    (tmp_path / "memory").mkdir()
    return Storage(tmp_path / "node", tmp_path / "memory")


def test_records_survive_and_what_is_half_made_does_not(storage, tmp_path):
    record = PodRecord("ns", "p", "uid-1", "127.1.0.1", {"main": ("0",)})
    storage.of("uid-1").write(record)
    (tmp_path / "node/pods/uid-2").mkdir()
    (tmp_path / "node/pods/uid-3").mkdir()
    (tmp_path / "node/pods/uid-3/pod.json").write_text("{half")
    found = Storage(tmp_path / "node")
    assert found.pods() == [record, PodRecord("", "", "uid-3")], "of a damaged record, something may run"
    assert found.left_over() == [tmp_path / "node/removed/uid-2"]
    assert sorted(path.name for path in (tmp_path / "node/pods").iterdir()) == ["uid-1", "uid-3"]
    assert (tmp_path / "node").stat().st_mode & 0o777 == 0o700


def test_old_attempts_are_forgotten(storage, tmp_path):
    place = storage.of("uid-1")
    place.write(PodRecord("ns", "p", "uid-1"))
    gone = []
    for number in range(4):
        place.begin("main", number)
        gone += place.remove_old("main", number)
    assert gone == [tmp_path / "node/removed/uid-1-containers-main-0"]
    assert place.attempts("main") == [1, 2, 3]
    assert place.containers() == ["main"]


def test_volumes_go_before_logs(storage, tmp_path):
    place = storage.of("uid-1")
    place.write(PodRecord("ns", "p", "uid-1"))
    place.begin("main", 0)
    (place.volume("a") / "x").mkdir(parents=True)
    memory = place.volume("b", in_memory=True)
    memory.mkdir(parents=True)
    assert memory.parts[-4] == "memory"
    assert memory.parts[-3].endswith("-uid-1")
    assert stat.S_IMODE(memory.parents[1].stat().st_mode) == 0o700
    assert place.remove_volumes() == [tmp_path / "node/removed/uid-1-volumes", memory.parents[1]]
    assert place.attempts("main") == [0]
    assert storage.left_over() == [tmp_path / "node/removed/uid-1-volumes"], "the memory is a pod's that there is"
    assert place.remove() == [memory.parents[1], tmp_path / "node/removed/uid-1"]
    removal.remove(memory.parents[1])
    assert place.remove() == []
    assert not place.exists()


def test_a_volume_in_memory_stays_where_it_is(storage):
    """Containers outlive the server, and see what they have mounted, whatever the next one would do."""
    place = storage.of("uid-1")
    place.write(PodRecord("ns", "p", "uid-1"))
    on_disk = place.volume("secret")
    on_disk.mkdir()
    assert place.volume("secret", in_memory=True) == on_disk
    assert place.volume("other", in_memory=True) != place.volume("other")


def test_memory_of_a_pod_that_is_no_more_is_left_over(storage):
    memory = storage.of("uid-1").volume("b", in_memory=True)
    assert storage.left_over() == [memory.parents[1]]


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can give files away")
def test_what_another_user_puts_beside_our_memory_is_not_ours(storage):
    memory = storage.of("uid-1").volume("b", in_memory=True).parents[1]
    other = memory.with_name(memory.name.replace("uid-1", "uid-2"))
    other.mkdir()
    os.chown(other, 65534, 65534)
    assert storage.left_over() == [memory]


@pytest.mark.parametrize("what", ["link", "file"])
@pytest.mark.parametrize("where", ["node", "node/pods", "node/removed"])
def test_what_is_in_our_place_is_set_aside(tmp_path, what, where):
    other = tmp_path / "other"
    other.mkdir(mode=0o755)
    (tmp_path / where).parent.mkdir(exist_ok=True)
    if what == "link":
        (tmp_path / where).symlink_to(other)
    else:
        (tmp_path / where).write_text("somebody's")
    storage = Storage(tmp_path / "node")
    aside = f".{(tmp_path / where).name}-set-aside-1"
    assert storage.notices == [f"{tmp_path / where} was not a directory of ours; it is {aside} now"]
    assert os.path.lexists((tmp_path / where).with_name(aside))
    storage.of("uid-1").write(PodRecord("ns", "p", "uid-1"))
    assert Storage(tmp_path / "node").pods() == [PodRecord("ns", "p", "uid-1")]
    assert list(other.iterdir()) == []


def put(path, what):
    """Something in the place of a file of ours."""
    path.parent.mkdir(parents=True, exist_ok=True)
    match what:
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "link":
            path.symlink_to("/etc/passwd")
        case bytes():
            path.write_bytes(what)


ODD: list[str | bytes] = ["directory", "fifo", "link", b"", b"\xff\xfe", b"[]", b"[" * 9999]
RECORDS = [b"{}", b'{"uid":"other","namespace":"","name":""}']
STATES = [b'{"claimed":-1}', b'{"started":1e99}', b'{"finished":9223372036854775808}', b'{"code":256}']


@pytest.mark.parametrize("what", [*ODD, *RECORDS])
def test_an_odd_record_is_of_a_pod_whose_uid_is_known(storage, what):
    place = storage.of("uid-1")
    put(place.root / "pod.json", what)
    assert storage.pods() == [PodRecord("", "", "uid-1")]
    place.write(PodRecord("ns", "p", "uid-1"))
    assert storage.pods() == [PodRecord("ns", "p", "uid-1")]


@pytest.mark.parametrize("what", [*ODD, *STATES])
def test_an_odd_state_is_of_an_attempt_of_which_nothing_is_known(storage, what):
    directory = storage.of("uid-1").begin("main", 0)
    put(directory / "state", what)
    assert shims.read_record(directory) == ShimRecord()
    assert shims.find(directory) is None
    assert not shims.is_alive(directory)


def test_what_is_no_pod_is_left_alone(storage, tmp_path):
    pods = tmp_path / "node/pods"
    (pods / "notes").mkdir()
    (pods / "notes/mine").touch()
    (pods / "file").touch()
    (pods / "link").symlink_to("/etc")
    (pods / "odd\nname").mkdir()
    os.mkdir(os.fsencode(pods) + b"/\xff")
    (pods / "uid-1").mkdir()
    before = sorted(set(os.listdir(pods)) - {"uid-1"})
    assert storage.pods() == []
    assert [path.name for path in storage.foreign()] == before
    assert storage.left_over() == [tmp_path / "node/removed/uid-1"]
    assert sorted(os.listdir(pods)) == before


def test_odd_names_of_containers_and_attempts_are_none(storage):
    place = storage.of("uid-1")
    for path in ("main/0", "main/x", "main/01", "main/-1", "main/²", "main/0x1", ".odd/0", "a b/0"):
        (place.root / "containers" / path).mkdir(parents=True)
    (place.root / "containers/file").touch()
    assert place.containers() == ["file", "main"]
    assert place.attempts("main") == [0]
    assert place.attempts("file") == []


@pytest.mark.parametrize(("shared", "mode"), [(False, 0o700), (True, 0o711)])
def test_directories_that_somebody_removed_are_made_again(tmp_path, shared, mode):
    place = Storage(tmp_path / "nodes" / "node-0", tmp_path, shared=shared).of("uid-1")
    shutil.rmtree(tmp_path / "nodes")
    place.write(PodRecord("ns", "p", "uid-1"))
    assert place.read() == PodRecord("ns", "p", "uid-1")
    for directory in ("", "pods", "removed"):
        assert stat.S_IMODE((tmp_path / "nodes" / "node-0" / directory).stat().st_mode) == mode


def test_what_cannot_be_moved_is_removed_where_it_is(storage, monkeypatch):
    place = storage.of("uid-1")
    place.write(PodRecord("ns", "p", "uid-1"))

    def refuse(path, target):
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(removal, "move", refuse)
    assert place.remove() == [place.root]


@pytest.mark.parametrize("name", ["..", ".", "a/b", "", "a\0b", "/etc"])
def test_what_is_no_name_is_no_path(storage, name):
    with pytest.raises(AssertionError, match="cannot be part of a path"):
        storage.of("uid-1").volume(name)


def test_the_spec_lists_every_file_of_the_package():
    """A shim imports nothing but the standard library and its own package."""
    import ast

    import muster.cluster.nodes.shim as package

    for path in Path(package.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
                assert not {"signal", "json", "pathlib", "subprocess", "asyncio", "logging"} & set(names), path
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                assert node.module in ("__future__", "typing", "collections.abc", "_socket"), path

import asyncio
import resource

import msgspec
import pytest

from muster.api.core import CONFIG_MAP, PERSISTENT_VOLUME
from muster.cluster.nodes.container.environment import Objects
from muster.cluster.nodes.disk.storage import PodStorage
from muster.cluster.nodes.volumes.contents import VolumeError
from muster.cluster.nodes.volumes.pod_volumes import PodVolumes

VOLUMES = [
    {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}},
    {"name": "settings", "configMap": {"name": "c"}},
]


def settings(value):
    return CONFIG_MAP.decode(msgspec.json.encode({"metadata": {"name": "c"}, "data": {"key": value}}))


def volume(path):
    spec = {"hostPath": {"path": str(path)}}
    return PERSISTENT_VOLUME.decode(msgspec.json.encode({"metadata": {"name": "v"}, "spec": spec}))


def test_a_claim_holds_for_the_life_of_its_pod(make_pod, around, tmp_path):
    storage = PodStorage(tmp_path / "pod", None, tmp_path / "removed")
    storage.root.mkdir()
    (first := tmp_path / "first").mkdir()
    (second := tmp_path / "second").mkdir()
    mounts = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in VOLUMES]
    pod = make_pod({"volumes": VOLUMES, "containers": [{"name": "main", "volumeMounts": mounts}]})
    volumes = PodVolumes(storage, None)

    def put(value, **claims):
        asyncio.run(volumes.put(pod, Objects({"c": settings(value)}, {}, volumes=claims), around))
        data, shown = volumes.mounts(pod.spec.containers[0], {})
        return data.source, (tmp_path / shown.source / "key").read_text()

    assert put("a", claim=volume(first)) == (str(first), "a")
    assert put("b") == (str(first), "b"), "the claim is gone, and other volumes are kept up to date"
    assert put("c", claim=volume(second)) == (str(first), "c"), "a new claim of that name is not this pod's"


def test_a_pod_waits_for_its_claim_to_be_bound(make_pod, around, tmp_path):
    volumes = PodVolumes(PodStorage(tmp_path / "pod", None, tmp_path / "removed"), None)
    with pytest.raises(VolumeError, match='"claim" is not bound'):
        asyncio.run(volumes.put(make_pod({"volumes": VOLUMES[:1]}), Objects({}, {}), around))


def test_a_refused_write_names_the_file(make_pod, around, tmp_path):
    storage = PodStorage(tmp_path / "pod", None, tmp_path / "removed")
    storage.root.mkdir()
    pod = make_pod({"volumes": VOLUMES[1:]})
    put = PodVolumes(storage, None).put(pod, Objects({"c": settings("a")}, {}), around)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(VolumeError, match=r'volume "settings" : /.*/volumes/settings/\.\.1/key: File too large'):
            asyncio.run(put)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

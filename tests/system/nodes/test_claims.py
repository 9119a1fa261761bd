"""Claims of persistent volumes on a machine without storage drivers: each is bound to a directory."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.system.plane import World, running

from muster.api.core import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, PersistentVolumeClaim, Pod
from muster.api.groups.storage import STORAGE_CLASS
from muster.api.jobset import JOB_SET
from muster.cluster.controllers.claims.volumeclaims import ClaimBinder, find_obstacle, volume_for
from muster.cluster.embedded import run_cluster
from muster.cluster.nodes.disk.leftovers import NODES, VOLUMES
from muster.cluster.nodespec import NodeSpec
from muster.cluster.store import MemoryJournal
from muster.gang.nodes.volumes import Volumes
from muster.runtime.clock import run_virtual

ROOT = Path("/home/volumes")


def claim(name="c", uid="u", **spec):
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"metadata": {"name": name, "namespace": "default", "uid": uid}, "spec": whole}


def typed(document):
    return msgspec.convert(document, PersistentVolumeClaim)


@pytest.mark.parametrize(
    ("spec", "is_foreign", "said"),
    [
        ({}, False, None),
        ({"storageClassName": "standard"}, False, None),  # of which nothing is known here
        ({"storageClassName": "standard"}, True, ""),
        ({"storageClassName": ""}, False, ""),  # only a volume that is there
        ({"volumeName": "x"}, False, ""),
        ({"volumeMode": "Block"}, False, "volumeMode Block: a directory is no block device"),
        ({"selector": {}}, False, "selector: directories have no labels to select by"),
        ({"dataSource": {"kind": "VolumeSnapshot", "name": "s"}}, False, "dataSource: a directory begins empty"),
    ],
)
def test_which_claims_get_a_directory(spec, is_foreign, said):
    assert find_obstacle(typed(claim(**spec)), class_is_foreign=is_foreign) == said


def test_the_volume_is_the_claims_alone_and_on_this_machine():
    volume = volume_for(typed(claim()), ROOT)
    assert volume["metadata"]["name"] == "pvc-u"
    assert volume["spec"]["claimRef"]["uid"] == "u"
    assert volume["spec"]["hostPath"]["path"] == "/home/volumes/pvc-u"
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": "muster.dev/server-machine", "operator": "Exists"}]}


class Binding(World):
    """A world with a binder whose directories are names in a set."""

    def __init__(self, plane):
        super().__init__(plane)
        self.directories = set()
        self.trouble = ""
        recorder = plane.events.recorder("claim-binder")
        self.binder = ClaimBinder(plane.manager, recorder, ROOT, self.removed)

    async def removed(self, path):
        if not self.trouble:
            self.directories.discard(path.name)
        return self.trouble

    async def claims(self):
        return {one.metadata.name: one for one in (await self.client.list(PERSISTENT_VOLUME_CLAIM)).items}

    async def volumes(self):
        return (await self.client.list(PERSISTENT_VOLUME)).items

    async def claimed(self, name="c", **spec):
        document = claim(name, **spec)
        del document["metadata"]["uid"]
        await self.client.create(PERSISTENT_VOLUME_CLAIM.seen_as(dict), document, "default")
        await self.settle()

    async def pod_with(self, name):
        container = {"name": "m", "image": "i", "command": ["x"]}
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": name}}
        spec = {"containers": [container], "volumes": [volume], "nodeName": "n"}
        await self.client.create(POD, msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod), "default")


@asynccontextmanager
async def binding():
    async with running(controllers=False) as plane:
        world = Binding(plane)
        run = asyncio.create_task(world.binder.run())
        await world.settle()
        try:
            yield world
        finally:
            await world.binder.stop()
            await run


def played(test):
    def run():
        async def body():
            async with binding() as world:
                await test(world)

        run_virtual(body())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@played
async def test_a_claim_is_bound_so_that_its_pods_can_be_placed(world):
    await world.claimed()
    (bound,) = (await world.claims()).values()
    (volume,) = await world.volumes()
    assert (bound.status.phase, bound.status.capacity) == ("Bound", {"storage": "1Gi"})
    assert (volume.status.phase, bound.spec.volume_name) == ("Bound", volume.metadata.name)
    known = Volumes()
    known.set_claim("default/c", bound)
    known.set_volume(volume.metadata.name, volume)
    assert known.explain_missing("default/c") == ""


@played
async def test_a_claim_with_a_class_of_a_driver_is_the_drivers(world):
    document = {"metadata": {"name": "disks"}, "provisioner": "disks.example.com"}
    await world.client.create(STORAGE_CLASS.seen_as(dict), document)
    await world.claimed(storageClassName="disks")
    assert await world.volumes() == []


@played
async def test_the_directory_goes_with_its_claim_after_its_last_pod(world):
    await world.claimed()
    (volume,) = await world.volumes()
    world.directories.add(volume.metadata.name)
    await world.pod_with("c")
    await world.client.delete(PERSISTENT_VOLUME_CLAIM, "c", "default")
    await world.settle()
    assert world.directories
    await world.client.patch(POD, "p", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
    await world.settle()
    assert (world.directories, await world.volumes()) == (set(), [])


@played
async def test_what_cannot_be_removed_is_tried_again(world):
    await world.claimed()
    world.trouble = "it is in use"
    await world.client.delete(PERSISTENT_VOLUME_CLAIM, "c", "default")
    await world.settle()
    assert len(await world.volumes()) == 1
    world.trouble = ""
    await asyncio.sleep(20)
    assert await world.volumes() == []


@played
async def test_a_claim_that_comes_again_begins_empty(world):
    await world.claimed()
    (old,) = await world.volumes()
    await world.client.delete(PERSISTENT_VOLUME_CLAIM, "c", "default")
    await world.claimed()
    (new,) = await world.volumes()
    assert new.metadata.name != old.metadata.name


@played
async def test_a_home_that_was_restored_elsewhere_has_its_own_directories(world):
    await world.claimed()
    world.binder._root = Path("/new/volumes")  # as at the next start
    await world.client.patch(PERSISTENT_VOLUME_CLAIM, "c", {"metadata": {"labels": {"a": "b"}}}, "default")
    await world.settle()
    (volume,) = await world.volumes()
    assert volume.spec.host_path.path.startswith("/new/volumes/pvc-")
    assert (await world.claims())["c"].spec.volume_name == volume.metadata.name


SCRIPT = """
echo $JOB_COMPLETION_INDEX > /data/$JOB_COMPLETION_INDEX
while [ ! -e /data/0 ] || [ ! -e /data/1 ]; do sleep 0.05; done
"""


def sharing():
    """A JobSet whose workers end when each sees the file of the other."""
    mounts = [{"name": "data", "mountPath": "/data"}]
    container = {"name": "c", "image": "none", "command": ["sh", "-c", SCRIPT], "volumeMounts": mounts}
    workers = {"completions": 2, "parallelism": 2, "completionMode": "Indexed"}
    workers["template"] = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    data = {"metadata": {"name": "data"}, "spec": claim()["spec"]}
    policy = {"templates": [data], "retentionPolicy": {"whenDeleted": "Delete"}}
    spec = {"volumeClaimPolicies": [policy], "replicatedJobs": [{"name": "w", "template": {"spec": workers}}]}
    return {"metadata": {"name": "s", "namespace": "default"}, "spec": spec}


def test_workers_of_a_jobset_share_a_directory_and_nobody_else_gets_it(tmp_path):
    """Whoever names the volume of another in a claim does not see it: the volume says whose it is."""

    async def body():
        async with run_cluster(MemoryJournal(), tmp_path / NODES, (NodeSpec(),), adopt=False) as running:
            client = running.plane.client()
            await client.create(JOB_SET.seen_as(dict), sharing(), "default")
            async with asyncio.timeout(50):
                while (await client.get(JOB_SET, "s", "default")).status.terminal_state != "Completed":
                    await asyncio.sleep(0.1)
            (volume,) = (await client.list(PERSISTENT_VOLUME)).items
            directory = tmp_path / VOLUMES / volume.metadata.name
            assert sorted(path.name for path in directory.iterdir()) == ["0", "1"]

            annotations = {"pv.kubernetes.io/bind-completed": "yes"}
            theft = claim("theft", volumeName=volume.metadata.name)
            theft["metadata"] = {"name": "theft", "annotations": annotations}
            await client.create(PERSISTENT_VOLUME_CLAIM.seen_as(dict), theft, "default")
            mounts = [{"name": "v", "mountPath": "/v"}]
            container = {"name": "m", "image": "i", "command": ["true"], "volumeMounts": mounts}
            source = {"name": "v", "persistentVolumeClaim": {"claimName": "theft"}}
            spec = {"containers": [container], "volumes": [source], "nodeName": "node-0"}
            pod = {"metadata": {"name": "thief"}, "spec": spec}
            await client.create(POD.seen_as(dict), pod, "default")

            await client.delete(JOB_SET, "s", "default", propagation="Background")
            async with asyncio.timeout(50):
                while directory.exists() or len((await client.list(POD)).items) > 1:
                    await asyncio.sleep(0.1)
            (still,) = (await client.list(POD)).items
            assert (still.metadata.name, still.status.phase) == ("thief", "Pending")

    asyncio.run(body())

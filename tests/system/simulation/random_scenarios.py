"""Random scenarios of everything that both engines play. A feature is a method that adds to the documents."""

from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import yaml

from muster.api.config.types import ALL_AT_ONCE, INCREMENTAL
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER

Document = dict[str, Any]

ZONES = ("a", "b")
LONGEST = 20_000  # seconds: so that moments are seldom close to each other
LEVELS = (("rack",), ("rack", "kubernetes.io/hostname"))  # of a Topology
PLACES = (None, "required", "preferred", "unconstrained")  # as pods ask for them
PRIORITIES = {"low": 10, "middle": 20, "high": 30}  # of pods
WORKER_KINDS = ("ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue")
POLICIES = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")


class RandomScenario:
    """A scenario drawn from a seed: small, so that a difference can be read.

    spec: the body of the scenario. objects: its manifests.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._more = Random(f"{seed}/more")  # for what was added later: a scenario without it stays as it was
        self.spec: Document = {"seed": seed, "work": []}
        self.objects: list[Document] = []
        self.files: dict[str, str] = {}
        self._zoned = self._chance(0.5)  # flavors have node labels
        self._tainted: set[str] = set()
        self._resources = ("cpu", "memory") if self._chance(0.3) else ("cpu",)
        self._flavors = [self._add_flavor(number) for number in range(self._random.randint(1, 2))]
        self._fair = self._chance(0.25)
        cohorts = self._add_cohorts()
        self._queues = [self._add_queue(name, cohorts) for name in "pqrs"[: self._random.randint(1, 4)]]
        if self._chance(0.6):
            self._add_nodes()
        self._racked = "nodes" in self.spec and self._zoned and self._more.random() < 0.3
        if self._racked:
            self._add_topology()
        self._classes = "nodes" in self.spec and not self._racked and self._more.random() < 0.3
        if self._classes:
            self._add_classes()
        self.by_usage = self._more.random() < 0.2
        if self.by_usage:
            self._order_by_usage()
        self._changing = self._more.random() < 0.25
        for number in range(self._random.randint(2, 4)):
            self._add_work(number)
        if self._changing:
            self.spec["changes"] = [self._make_change() for _ in range(self._more.randint(1, 3))]
        self._late = Random(f"{seed}/late")  # the same, for what was added after that
        self.dispatcher = ALL_AT_ONCE
        if not (self._racked or self._classes or self.by_usage or self._changing) and self._late.random() < 0.25:
            self._add_clusters()
        if self._changing and self._late.random() < 0.3:
            self._restart()

    def write(self, folder: Path) -> str:
        """Write the scenario and its files into a folder; return the name of its file."""
        head = {"apiVersion": "muster.dev/v1alpha1", "kind": "Scenario", "metadata": {"name": "s"}, "spec": self.spec}
        file = folder / "scenario.yaml"
        file.write_text(yaml.dump_all([head, *self.objects], Dumper=yaml.CSafeDumper, sort_keys=False))
        for name, text in self.files.items():
            (folder / name).write_text(text)
        return str(file)

    # The cluster.

    def _add_flavor(self, number: int) -> str:
        name = f"f{number}"
        spec: Document = {}
        if self._zoned:
            spec["nodeLabels"] = {"zone": ZONES[number]}
            if self._chance(0.3):
                self._tainted.add(ZONES[number])
                spec["nodeTaints"] = [self._make_taint(ZONES[number])]
        self._add("ResourceFlavor", name, spec)
        return name

    def _make_taint(self, zone: str) -> Document:
        return {"key": "zone", "value": zone, "effect": "NoSchedule"}

    def _add_cohorts(self) -> list[str]:
        if self._chance(0.2):
            return []
        names = ["all"]
        if self._chance(0.5):
            for name in ("left", "right"):
                spec: Document = {"parentName": "all"}
                if self._fair and self._chance(0.5):
                    spec["fairSharing"] = {"weight": str(self._random.choice([1, 2]))}
                self._add("Cohort", name, spec)
            names = ["left", "right"]
        return names

    def _add_queue(self, name: str, cohorts: list[str]) -> str:
        spec: Document = {
            "namespaceSelector": {},
            "queueingStrategy": self._random.choice(["StrictFIFO", "BestEffortFIFO", "BestEffortFIFO"]),
            "preemption": {
                "withinClusterQueue": self._random.choice(POLICIES),
                "reclaimWithinCohort": self._random.choice(["Never", "LowerPriority", "Any"]),
            },
            "flavorFungibility": {
                "whenCanBorrow": self._random.choice(["MayStopSearch", "TryNextFlavor"]),
                "whenCanPreempt": self._random.choice(["MayStopSearch", "TryNextFlavor"]),
            },
        }
        cohort = self._random.choice(cohorts) if cohorts and self._chance(0.85) else ""
        if cohort:
            spec["cohortName"] = cohort
            if spec["preemption"]["reclaimWithinCohort"] != "Never" and not self._fair and self._chance(0.3):
                within = {"policy": "LowerPriority", "maxPriorityThreshold": self._random.randint(0, 2)}
                spec["preemption"]["borrowWithinCohort"] = within
        if self._fair:
            spec["fairSharing"] = {"weight": str(self._random.choice([1, 2, 3]))}
        flavors = self._random.sample(self._flavors, self._random.randint(1, len(self._flavors)))
        groups = [{"name": flavor, "resources": self._draw_quotas(bool(cohort))} for flavor in flavors]
        spec["resourceGroups"] = [{"coveredResources": list(self._resources), "flavors": groups}]
        if self._chance(0.05):
            spec["stopPolicy"] = self._random.choice(["Hold", "HoldAndDrain"])
        self._add("ClusterQueue", name, spec)
        self._add("LocalQueue", name, {"clusterQueue": name})
        return name

    def _draw_quotas(self, in_cohort: bool) -> list[Document]:
        quotas = []
        for resource in self._resources:
            unit = "" if resource == "cpu" else "Gi"
            nominal = self._random.choice([0, 2, 4, 6, 8])
            quota = {"name": resource, "nominalQuota": f"{nominal}{unit}"}
            for limit, most in (("borrowingLimit", 4), ("lendingLimit", nominal)):
                if in_cohort and self._chance(0.2):
                    quota[limit] = f"{self._random.randint(0, most)}{unit}"
            quotas.append(quota)
        return quotas

    def _add_nodes(self) -> None:
        pools = []
        for zone in ZONES:
            template: Document = {
                "metadata": {"labels": {"zone": zone}},
                "status": {"allocatable": {"cpu": str(self._random.choice([2, 4, 8])), "memory": "64Gi"}},
            }
            if zone in self._tainted:
                template["spec"] = {"taints": [self._make_taint(zone)]}
            pools.append({"name": zone, "count": self._random.randint(1, 4), "template": template})
        self.spec["nodes"] = pools

    def _add_topology(self) -> None:
        """Make two racks of each zone, and give places to all pods."""
        levels = [{"nodeLabel": name} for name in self._more.choice(LEVELS)]
        self._add("Topology", "t", {"levels": levels})
        for one in self.objects:
            if one["kind"] == "ResourceFlavor":
                one["spec"]["topologyName"] = "t"
        pools = []
        for pool in self.spec["nodes"]:
            for rack in ("x", "y"):
                template = deepcopy(pool["template"])
                template["metadata"]["labels"]["rack"] = f"{pool['name']}{rack}"
                pools.append({"name": f"{pool['name']}{rack}", "count": pool["count"], "template": template})
        self.spec["nodes"] = pools

    def _add_classes(self) -> None:
        """Let jobs of some works take the nodes of others."""
        for name, value in PRIORITIES.items():
            policy = "Never" if self._more.random() < 0.2 else "PreemptLowerPriority"
            head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            self.objects.append(head | {"value": value, "preemptionPolicy": policy})

    def _order_by_usage(self) -> None:
        """Give each queue another LocalQueue, and order both by what they used."""
        self.spec["until"] = 1000 * LONGEST  # nothing is sampled before, see `judge.CONFIGURATION`
        for one in [one for one in self.objects if one["kind"] == "ClusterQueue"]:
            one["spec"]["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing"}
            name = one["metadata"]["name"]
            weight = {"fairSharing": {"weight": str(self._more.choice([1, 1, 3]))}}
            self._add("LocalQueue", f"{name}-more", {"clusterQueue": name} | weight)

    def _make_change(self) -> Document:
        """Return a change of the nodes or of a queue."""
        at, lasts = self._more.randrange(5, 2 * LONGEST), self._more.randrange(LONGEST // 10, LONGEST)
        kinds = ["lose", "drain", "cordon", "scale"] if "nodes" in self.spec else []
        kind = self._more.choice([*kinds, "quota", "stop"])
        queue = self._more.choice(self._queues)
        if kind == "quota":
            quota = {"clusterQueue": queue, "nominalQuota": {"cpu": self._more.choice([8, 9, 12])}}
            action: Document = quota | {"flavor": self._find_flavor(queue)}
        elif kind == "stop":
            # A cluster requeues what a stopped queue evicted a little after its other jobs.
            stops = ({"policy": "Hold", "for": lasts}, {"policy": "HoldAndDrain"})
            action = {"clusterQueue": queue} | self._more.choice(stops)
        elif kind == "scale":
            action = {"pool": self._draw_pool(), "count": self._more.randint(1, 5)}
        else:
            action = {"pool": self._draw_pool(), "count": 1, "for": lasts}
        return {"at": at, kind: action}

    def _restart(self) -> None:
        """Stop the engine for a while, in which nothing else changes."""
        times = [change["at"] for change in self.spec["changes"]]
        at = max(times) + self._late.randrange(LONGEST // 10, LONGEST)
        self.spec["changes"].append({"at": at, "restart": {"for": self._late.randrange(60, LONGEST // 2)}})

    def _add_clusters(self) -> None:
        """Let a manager send the jobs of some queues to worker clusters, which have queues of the same names."""
        self.dispatcher = self._late.choice([ALL_AT_ONCE, ALL_AT_ONCE, INCREMENTAL])
        names = ["east", "west", "north"][: self._late.randint(1, 3)]
        reference = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "clusters"}
        self._add("AdmissionCheck", "clusters", {"controllerName": MULTI_KUEUE_CONTROLLER, "parameters": reference})
        self._add("MultiKueueConfig", "clusters", {"clusters": names})
        queues = [one for one in self.objects if one["kind"] == "ClusterQueue"]
        sent = [queue for queue in queues if self._late.random() < 0.7] or queues[:1]
        objects = [one for one in self.objects if one["kind"] in WORKER_KINDS]
        self.spec["clusters"] = [self._make_cluster(name, objects) for name in names]
        for queue in sent:
            queue["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": "clusters"}]}

    def _make_cluster(self, name: str, objects: list[Document]) -> Document:
        """Return a worker cluster with the queues of the manager and other quotas."""
        manifests = deepcopy(objects)
        for one in manifests:
            for group in one["spec"].get("resourceGroups", ()):
                for flavor in group["flavors"]:
                    for quota in flavor["resources"]:
                        nominal = self._late.choice([2, 4, 6, 8])
                        quota["nominalQuota"] = f"{nominal}{'' if quota['name'] == 'cpu' else 'Gi'}"
                        quota.pop("lendingLimit", None)
        cluster: Document = {"name": name, "manifests": manifests}
        if "nodes" in self.spec and self._late.random() < 0.7:
            cluster["nodes"] = deepcopy(self.spec["nodes"])
        if self._late.random() < 0.3:
            lasts = self._late.randrange(LONGEST // 50, LONGEST)
            cluster["lost"] = [{"at": self._late.randrange(5, LONGEST), "for": lasts}]
        return cluster

    def _draw_pool(self) -> str:
        return str(self._more.choice(self.spec["nodes"])["name"])

    def _find_flavor(self, queue: str) -> str:
        spec = next(one["spec"] for one in self.objects if one["metadata"]["name"] == queue and "spec" in one)
        return str(self._more.choice(spec["resourceGroups"][0]["flavors"])["name"])

    # Its work.

    def _add_work(self, number: int) -> None:
        name, count = f"w{number}", self._random.randint(2, 7)
        work: Document = {
            "name": name,
            "arrivals": {"burst": {"at": sorted(self._random.sample(range(5, LONGEST), count)), "count": 1}},
            "runTime": {"empirical": f"{name}.txt"},
        }
        self.files[f"{name}.txt"] = "\n".join(str(self._random.randint(LONGEST // 50, LONGEST)) for _ in range(20))
        # A cluster may give places of a Topology away between two pods that ask for nodes at once.
        if self._chance(0.9) or "nodes" not in self.spec or self._racked:
            work["queue"] = self._random.choice(self._queues)
            if self.by_usage:
                work["queue"] += self._more.choice(["", "-more"])
        jobset = self._chance(0.25)
        if not jobset and self._chance(0.7) and not self._changing:
            work["size"] = {"uniform": {"from": 1, "to": self._random.choice([3, 6])}}
        if "queue" in work and self._chance(0.6):
            work["priority"] = {"uniform": {"from": 0, "to": 3}}
        if self._chance(0.3) and not self._changing:  # the pods of a cluster have the limit, and start again with it
            work["limit"] = self._random.choice([LONGEST // 10, LONGEST // 3])
        work["template"] = self._make_jobset() if jobset else self._make_job("queue" in work)
        self.spec["work"].append(work)

    def _make_job(self, queued: bool) -> Document:
        meta, spec = {}, self._make_job_spec()
        if queued and spec["parallelism"] > 1 and self._chance(0.3):
            meta["annotations"] = {
                "kueue.x-k8s.io/job-min-parallelism": "1",
                "kueue.x-k8s.io/job-completions-equal-parallelism": "true",  # one wave: the run time is that of all
            }
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}

    def _make_jobset(self) -> Document:
        roles = [
            {"name": name, "replicas": self._random.randint(1, 2), "template": {"spec": self._make_job_spec()}}
            for name in ("head", "tail")[: self._random.randint(1, 2)]
        ]
        meta = {"annotations": {"muster.dev/gang": "true"}}
        return {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": meta,
            "spec": {"replicatedJobs": roles},
        }

    def _make_job_spec(self) -> Document:
        requests = {"cpu": str(self._random.choice([1, 1, 2, 3]))}
        if "memory" in self._resources:
            requests["memory"] = f"{self._random.randint(1, 2)}Gi"
        spec: Document = {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}],
        }
        if self._zoned and self._chance(0.2):
            spec["nodeSelector"] = {"zone": self._random.choice(ZONES)}
        if self._zoned and self._chance(0.6):
            spec["tolerations"] = [{"key": "zone", "operator": "Exists"}]
        size, meta = 1 if self._changing else self._random.randint(1, 3), {}
        if self._racked and (asked := self._more.choice(PLACES)) is not None:
            meta["annotations"] = {f"kueue.x-k8s.io/podset-{asked}-topology": "true" if asked[0] == "u" else "rack"}
        if self._classes:
            spec["priorityClassName"] = self._more.choice(list(PRIORITIES))
        template = {"metadata": meta, "spec": spec}
        job = {"completionMode": "Indexed", "parallelism": size, "completions": size, "template": template}
        return job | ({"backoffLimit": 0} if self._changing else {})  # a gang restarts whole: its pods end together

    # Draws.

    def _add(self, kind: str, name: str, spec: Document) -> None:
        head = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}}
        self.objects.append(head | {"spec": spec})

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

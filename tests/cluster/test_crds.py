"""The definitions on a real kube-apiserver, beside upstream's on another: what is accepted, refused and stored."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest
from tests.cluster.conftest import Cluster
from tests.crdcases import CASES, SAMPLES, Case, Json, edited, mutated
from tests.documents import documents, needs_the_peers
from tests.kubeplane import KubePlane, kube_plane, needs_kubernetes

from muster.api.server.admissionregistration import ServiceReference, WebhookClientConfig
from muster.cluster.apiserver.custom.v1beta1 import to_v1
from muster.install.crds import make_definitions

pytestmark = [needs_kubernetes, needs_the_peers, pytest.mark.kubectl, pytest.mark.timeout(900)]

WEBHOOK = WebhookClientConfig(service=ServiceReference(namespace="n", name="s"))
OLD = "v1beta1"
OBJECTS = 40  # of each sample

Answer = tuple[int, Json]


class Api:
    """Requests for custom resources."""

    def __init__(self, plane: KubePlane) -> None:
        self._plane = plane
        self._tls = ssl.create_default_context(cafile=str(plane.home / "tls.crt"))

    def __call__(self, method: str, path: str, body: Json | None = None) -> Answer:
        request = urllib.request.Request(
            f"{self._plane.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._plane.token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, context=self._tls) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def make(self, document: Json) -> Answer:
        """The object, and then its status; the first answer that refuses it, or the last."""
        answer = self("POST", _folder(document), document)
        if answer[0] != 201 or not _has_status(document):
            return answer
        return self("PUT", f"{_path(document)}/status", _renewed(document, answer[1]))

    def would_make(self, document: Json) -> Answer:
        return self("POST", f"{_folder(document)}?dryRun=All", document)

    def would_change(self, document: Json) -> Sequence[Answer]:
        """What a change of the object that is there would end in, and one of its status."""
        stored = self("GET", _path(document))[1]
        parts = ("", "/status") if _has_status(stored) else ("",)
        return [self("PUT", f"{_path(document)}{part}?dryRun=All", _renewed(document, stored)) for part in parts]

    def remove(self, document: Json) -> None:
        self("DELETE", _path(document))


def _has_status(document: Json) -> bool:
    return "status" in document


def _renewed(document: Json, stored: Json) -> Json:
    version = stored["metadata"]["resourceVersion"]
    return document | {"metadata": document["metadata"] | {"resourceVersion": version}}


PLURALS = {
    (crd["spec"]["group"], crd["spec"]["names"]["kind"]): crd["spec"]["names"]["plural"] for crd in make_definitions()
}


def _folder(document: Json) -> str:
    plural = PLURALS[document["apiVersion"].partition("/")[0], document["kind"]]
    namespace = document["metadata"].get("namespace")
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{document['apiVersion']}{within}/{plural}"


def _path(document: Json) -> str:
    return f"{_folder(document)}/{document['metadata']['name']}"


def outcome(answer: Answer) -> Any:
    """What an answer says: what is stored, or where something is wrong."""
    code, body = answer
    if code < 300:
        return {name: value for name, value in body.items() if name != "metadata"}
    causes = (body.get("details") or {}).get("causes") or ()
    return code, sorted((cause.get("field", ""), cause.get("reason", "")) for cause in causes)


def refused(answers: Sequence[Answer]) -> bool:
    return any(code >= 300 for code, _ in answers)


def install(cluster: Cluster, crds: Sequence[Json]) -> None:
    """Nothing but these."""
    cluster.kubectl("delete", "crd", "--all", "--timeout=400s")
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": crds})
    cluster.kubectl("apply", "--server-side", "-f", "-", text=text)
    cluster.kubectl("wait", "--for", "condition=Established", "crd", "--all", "--timeout=60s")


def upstreams() -> list[Json]:
    found = [crd for folder in ("jobset", "kueue", "podgroup") for _, crd in documents(f"crds/{folder}/*.yaml")]
    return [_in_v1(crd) if crd["apiVersion"].endswith("v1beta1") else crd for crd in found]


def _in_v1(crd: Json) -> Json:
    """kube-batch's, which no server takes any more as they are: v1 says in the schema that what is unknown is kept."""
    result = to_v1(crd)
    del result["spec"]["preserveUnknownFields"]
    schema = result["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for each in (schema, schema["properties"]["spec"], schema["properties"]["status"]):
        each["x-kubernetes-preserve-unknown-fields"] = True
    result["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    return result


def with_version(crds: Sequence[Json], *, old: bool) -> list[Json]:
    """Those that have the version, in it alone: without a webhook one would be read as the other."""
    result = []
    for crd in crds:
        versions = [each for each in crd["spec"]["versions"] if not old or each["name"] == OLD]
        kept = next((each for each in versions if old or each["storage"]), None)
        if kept is not None:
            spec = {name: value for name, value in crd["spec"].items() if name != "conversion"}
            result.append(crd | {"spec": spec | {"versions": [kept | {"served": True, "storage": True}]}})
    return result


def served_in(samples: dict[str, Any], crds: Sequence[Json]) -> dict[str, Any]:
    """The samples of what is installed."""
    served = {
        f"{crd['spec']['names']['kind']} {crd['spec']['group']}/{version['name']}"
        for crd in crds
        for version in crd["spec"]["versions"]
    }
    return {sample: value for sample, value in samples.items() if sample in served}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with kube_plane(tmp_path_factory.mktemp("ours")) as plane:
        yield Cluster(plane)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with kube_plane(tmp_path_factory.mktemp("theirs")) as plane:
        yield Cluster(plane)


@pytest.mark.parametrize("webhook", [None, WEBHOOK], ids=["without", "with"])
def test_they_are_established(ours: Cluster, webhook: WebhookClientConfig | None) -> None:
    install(ours, make_definitions(webhook))
    for crd in ours.get("crd")["items"]:
        said = {each["type"]: each["status"] for each in crd["status"]["conditions"]}
        assert said.pop("KubernetesAPIApprovalPolicyConformant", "False") == "False"
        assert said == {"NamesAccepted": "True", "Established": "True"}, crd["metadata"]["name"]
    again = json.dumps({"apiVersion": "v1", "kind": "List", "items": make_definitions(webhook)})
    before = {crd["metadata"]["name"]: crd["metadata"]["generation"] for crd in ours.get("crd")["items"]}
    ours.kubectl("apply", "--server-side", "-f", "-", text=again)
    assert {crd["metadata"]["name"]: crd["metadata"]["generation"] for crd in ours.get("crd")["items"]} == before


def test_they_take_the_place_of_upstreams_under_their_objects(ours: Cluster) -> None:
    install(ours, upstreams())
    api = Api(ours.plane)
    queue = SAMPLES["ClusterQueue kueue.x-k8s.io/v1beta2"]
    before = api.make(queue)[1]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": make_definitions()})
    ours.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=text)
    assert api("GET", _path(queue))[1] == before


@pytest.mark.parametrize("old", [False, True], ids=["stored", OLD])
def test_the_same_is_accepted_refused_and_stored(ours: Cluster, theirs: Cluster, *, old: bool) -> None:
    mine = with_version(make_definitions(WEBHOOK), old=old)
    install(ours, mine)
    install(theirs, with_version(upstreams(), old=old))
    apis = Api(ours.plane), Api(theirs.plane)
    for sample, cases in served_in(dict(CASES), mine).items():
        for number, case in enumerate(cases):
            tried = [_try(api, sample, case) for api in apis]
            assert tried[0] == tried[1], (sample, number)
    for sample in served_in(dict(SAMPLES), mine):
        _compare(apis, sample)


def _try(api: Api, sample: str, case: Case) -> Any:
    """What the case ends in; where it changes one part alone, that is what the table says."""
    new = edited(SAMPLES[sample], case.new)
    if case.old is None:
        answers: Sequence[Answer] = [api.make(new)]
    else:
        old = edited(SAMPLES[sample], case.old)
        assert not refused([api.make(old)])
        answers = api.would_change(new)
    api.remove(new)
    parts = {path.partition(".")[0] for path in (*case.new, *(case.old or ()))}
    if len(parts) < 2:
        assert refused(answers) == bool(case.refused), (sample, case, answers)
    return list(map(outcome, answers))


def _compare(apis: tuple[Api, Api], sample: str) -> None:
    """Objects at random, made and changed."""
    for api in apis:
        assert not refused([api.make(SAMPLES[sample])]), sample
    random = Random(sample)
    for _ in range(OBJECTS):
        other = mutated(random, SAMPLES[sample])
        new = other | {"metadata": other["metadata"] | {"name": "y"}}
        assert outcome(apis[0].would_make(new)) == outcome(apis[1].would_make(new)), new
        changed = [list(map(outcome, api.would_change(other))) for api in apis]
        assert changed[0] == changed[1], other
    for api in apis:
        api.remove(SAMPLES[sample])

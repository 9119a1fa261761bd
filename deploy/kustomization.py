"""The kustomize files: a base that is what `muster manifests` prints, and what differs from it in each component. Pure.

A component is made by comparing two lists of documents, so that an overlay renders to what `muster manifests` prints
with the same option.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from muster.api.config import load
from muster.cli.terminal.output import dump
from muster.install.documents import make_documents
from muster.install.options import WITH_CERT_MANAGER, Json, Options, make_default_configuration

HEADER = "# Made by `python -m deploy.make` from what `muster manifests` prints: change that, not this file.\n"


def options(more: str = "", **others: Any) -> Options:
    """Return the options of an installation with the plain Configuration, and more lines of it."""
    text = make_default_configuration() + more
    return replace(Options(text, load(text)), **others)


# By the name of the component: the options that it stands for.
COMPONENTS = {
    "cert-manager": options(WITH_CERT_MANAGER, cert_manager=True),
    "without-webhooks": options(webhooks=False),
    "one-replica": options(replicas=1),
    "monitoring": options(monitoring=True),
    "dashboard": options(dashboard=True),
}


def kustomize_files() -> dict[str, str]:
    """Return the files by their paths under `deploy/kustomize`."""
    base = make_documents(options())
    found = {
        "base/muster.yaml": text_of(base),
        "base/kustomization.yaml": _kustomization("Kustomization", resources=["muster.yaml"]),
    }
    for name, chosen in COMPONENTS.items():
        for file, text in _component(base, make_documents(chosen)).items():
            found[f"components/{name}/{file}"] = text
        found[f"overlays/{name}/kustomization.yaml"] = _kustomization(
            "Kustomization", resources=["../../base"], components=[f"../../components/{name}"]
        )
    return found


def text_of(several: Sequence[Json]) -> str:
    """Return documents as one text, as `muster manifests` prints them."""
    return HEADER + "".join(f"---\n{dump(each, 'yaml')}\n" for each in several)


def edits(before: Any, after: Any, path: str = "") -> Iterator[Json]:
    """Yield the operations of a JSON patch that make one value of another."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before | after:
            at = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            if key not in after:
                yield {"op": "remove", "path": at}
            elif key not in before:
                yield {"op": "add", "path": at, "value": after[key]}
            else:
                yield from edits(before[key], after[key], at)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from edits(one, other, f"{path}/{number}")
    else:
        yield {"op": "replace", "path": path, "value": after}


def _component(before: Sequence[Json], after: Sequence[Json]) -> dict[str, str]:
    wanted, there = ({_key(each): each for each in several} for several in (after, before))
    patches: list[Json] = []
    for key, document in there.items():
        target = {"kind": document["kind"], "name": document["metadata"]["name"]}
        if key not in wanted:
            head = {"apiVersion": document["apiVersion"], "kind": document["kind"], "$patch": "delete"}
            place = {name: document["metadata"][name] for name in ("name", "namespace") if name in document["metadata"]}
            patches.append({"patch": dump(head | {"metadata": place}, "yaml") + "\n"})
        elif operations := list(edits(document, wanted[key])):
            patches.append({"target": target, "patch": dump(operations, "json") + "\n"})
    added = [document for key, document in wanted.items() if key not in there]
    lists: dict[str, Sequence[Any]] = {"resources": ["added.yaml"] if added else [], "patches": patches}
    files = {"kustomization.yaml": _kustomization("Component", **lists)}
    return files | ({"added.yaml": text_of(added)} if added else {})


def _key(document: Json) -> tuple[str, str, str]:
    return document["kind"], document["metadata"].get("namespace", ""), document["metadata"]["name"]


def _kustomization(kind: str, **lists: Sequence[Any]) -> str:
    version = "v1alpha1" if kind == "Component" else "v1beta1"
    head = {"apiVersion": f"kustomize.config.k8s.io/{version}", "kind": kind}
    return HEADER + dump(head | {name: listed for name, listed in lists.items() if listed}, "yaml") + "\n"

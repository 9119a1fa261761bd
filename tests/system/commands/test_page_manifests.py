"""The manifests of the pages: the server takes each as it stands there, without a warning."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.system.apiserver.harness import Api
from tests.system.plane import running

from muster.api.config import load
from muster.cluster.apiserver.access.audit_policy import parse
from muster.runtime.clock import run_virtual

Json = dict[str, Any]

DOCS = Path(__file__).parents[3] / "docs"
# Blocks of YAML, and what shells write to files or pass on; programs are left out.
BLOCK = re.compile(
    r"^```yaml\n(.*?)^```|(?<!\.py )(?<!\.toml )(?<!\.sh )(?<!Snakefile )<<'?END'?\n(.*?)^END\n",
    re.MULTILINE | re.DOTALL,
)
# No object of a cluster: files that a program reads, and parts of manifests.
FILES = ("config.kueue.x-k8s.io/", "audit.k8s.io/", "muster.dev/v1alpha1")


def is_object(document: Any) -> bool:
    """Return whether a server stores it."""
    return isinstance(document, dict) and "kind" in document and not document["apiVersion"].startswith(FILES)


def read_blocks(page: Path) -> list[list[Any]]:
    """Return the documents of each block of a page; scripts, and manifests cut short by `...`, are left out."""
    texts = ["".join(both) for both in BLOCK.findall(page.read_text())]
    return [list(yaml.safe_load_all(text)) for text in texts if "#MUSTER" not in text and "..." not in text]


def list_objects(page: Path) -> list[list[Any]]:
    """Return the blocks of a page in which all documents are objects of a cluster."""
    return [documents for documents in read_blocks(page) if all(map(is_object, documents))]


def list_definitions(page: Path) -> list[Json]:
    """Return the kinds that a page defines, for the objects of these kinds that it shows."""
    documents = [document for documents in list_objects(page) for document in documents]
    return [document for document in documents if document["kind"] == "CustomResourceDefinition"]


BLOCKS = [
    pytest.param(documents, page, id=f"{page.name}: {', '.join(document['kind'] for document in documents)}")
    for page in sorted(DOCS.glob("*.md"))
    for documents in list_objects(page)
]


async def find_path(api: Api, document: Json) -> str:
    """Return where a document is created, as discovery says."""
    version = document["apiVersion"]
    root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    resources = (await api.get(root)).json["resources"]
    [resource] = [one for one in resources if one["kind"] == document["kind"] and "/" not in one["name"]]
    namespace = f"/namespaces/{document['metadata'].get('namespace', 'default')}" if resource["namespaced"] else ""
    return f"{root}{namespace}/{resource['name']}"


@pytest.mark.parametrize(("documents", "page"), BLOCKS)
def test_the_server_takes_manifests_as_pages_show_them(documents: list[Json], page: Path) -> None:
    async def create_all() -> None:
        async with running(controllers=False) as plane:
            api = Api(plane)
            namespaces = {document["metadata"].get("namespace", "default") for document in documents} - {"default"}
            for name in namespaces:
                await api.made("/api/v1/namespaces", {"metadata": {"name": name}})
            defined = [one for one in list_definitions(page) if one not in documents]
            for document in (*defined, *documents):
                if account := document.get("spec", {}).get("serviceAccountName"):
                    await api.made("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": account}})
                answer = await api.post(await find_path(api, document), document, fieldValidation="Strict")
                assert (answer.status, answer.headers.get("warning")) == (201, None), answer.body

    run_virtual(create_all())


def read_file(page: str, kind: str) -> str:
    """Return the one block of a page that is a file of this kind."""
    [text] = [str(block) for block, _ in BLOCK.findall((DOCS / page).read_text()) if f"kind: {kind}\n" in block]
    return text


def test_the_configuration_on_its_page_is_one() -> None:
    assert load(read_file("configuration.md", "Configuration")).muster.scheduling.scoring_strategy == "LeastAllocated"


def test_the_audit_policy_on_its_page_is_one() -> None:
    assert len(parse(read_file("access.md", "Policy")).rules) == 5

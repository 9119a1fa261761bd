"""`muster apply`: make objects as their manifests say."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from muster.cli.applying import ManifestError, annotated, change, documents
from muster.cli.completion import names
from muster.cli.examples import examples
from muster.cli.session import Session, Target, connect, run, target_options

_SUFFIXES = (".yaml", ".yml", ".json")
_STRICT = "strict decoding error"


@click.command(
    epilog=examples(
        "muster apply -f examples/jobs/indexed.yaml --wait",
        "muster apply -f examples/jobs/",
        "muster apply -f - --dry-run < train.yaml",
    ),
)
@click.option(
    "-f",
    "--filename",
    metavar="FILE|DIR|-",
    multiple=True,
    required=True,
    help="Manifests; - is stdin.",
    shell_complete=names.files,
)
@click.option("--wait", is_flag=True, help="Wait until the jobs among them finish; the exit code is the job's.")
@click.option("--dry-run", is_flag=True, help="Let the server check everything and store nothing.")
@target_options
def command(filename: tuple[str, ...], wait: bool, dry_run: bool, **options: Any) -> None:
    """Create or change objects until they are as their manifests say."""
    try:
        manifests = [document for name in filename for document in _read(name)]
    except (ManifestError, OSError) as error:
        raise click.ClickException(str(error)) from error
    sys.exit(run(_apply(Target.of(options), manifests, wait=wait, dry_run=dry_run)))


def _read(name: str) -> list[dict[str, Any]]:
    if name == "-":
        return list(documents(sys.stdin.read(), "stdin"))
    path = Path(name)
    files = sorted(p for p in path.iterdir() if p.suffix in _SUFFIXES) if path.is_dir() else [path]
    return [document for file in files for document in documents(file.read_text(), str(file))]


async def _apply(target: Target, manifests: list[dict[str, Any]], *, wait: bool, dry_run: bool) -> int:
    from muster.cli.discovery import Discovery

    async with connect(target) as session:
        discovery = Discovery(session.client)
        jobs = []
        for manifest in manifests:
            kind = await discovery.kind(manifest["apiVersion"], manifest["kind"])
            stored, verb = await _apply_one(session, kind, manifest, dry_run=dry_run)
            name = stored["metadata"]["name"]
            click.echo(f"{kind.kind.lower()}{'.' + kind.group if kind.group else ''}/{name} {verb}")
            if wait and kind.resource == "jobs.batch" and _is_suspended(stored):
                click.echo(f"{name}: suspended, not waited for", err=True)
            elif kind.resource == "jobs.batch":
                jobs.append((stored["metadata"]["namespace"], name))
        if not wait or dry_run:
            return 0
        codes = await asyncio.gather(*(_finish(session, namespace, name) for namespace, name in jobs))
        return next((code for code in codes if code), 0)


def _is_suspended(job: dict[str, Any]) -> bool:
    """By a person; a queue resumes its jobs."""
    from muster.api.kueue.names import QUEUE_NAME_LABEL

    return bool(job["spec"].get("suspend")) and QUEUE_NAME_LABEL not in (job["metadata"].get("labels") or {})


async def _apply_one(
    session: Session, kind: Any, manifest: dict[str, Any], *, dry_run: bool
) -> tuple[dict[str, Any], str]:
    """The stored object, and what happened to it."""
    from muster.api.status import ApiError
    from muster.runtime.transport import Request

    mark = " (dry run)" if dry_run else ""
    metadata = manifest["metadata"]
    namespace = (metadata.get("namespace") or session.namespace) if kind.namespaced else ""
    current: dict[str, Any] | None = None
    if name := metadata.get("name"):
        try:
            current = await session.client.get(kind, name, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
    strict = {"fieldValidation": "Strict", "fieldManager": "muster-apply"} | ({"dryRun": "All"} if dry_run else {})
    if current is None:
        body = msgspec.json.encode(annotated(manifest))
        response = await session.client.raw(Request("POST", kind.path(namespace), strict, body))
        return msgspec.json.decode(response.body), f"created{mark}"
    patch = change(current, manifest)
    if not patch:
        return current, f"unchanged{mark}"
    request = Request(
        "PATCH", kind.path(namespace, name), strict, msgspec.json.encode(patch), "application/merge-patch+json"
    )
    try:
        stored = msgspec.json.decode((await session.client.raw(request)).body)
    except ApiError as error:
        # The server repeats the whole patch before it says what is wrong with it.
        _, found, problem = str(error).partition(_STRICT)
        if not found:
            raise
        raise click.ClickException(f"{kind.kind} {name}: {_STRICT}{problem}") from None
    same = stored["metadata"]["resourceVersion"] == current["metadata"]["resourceVersion"]
    return stored, ("unchanged" if same and not dry_run else "configured") + mark


async def _finish(session: Session, namespace: str, name: str) -> int:
    from muster.cli.commands.wait import follow

    return await follow(session, namespace, name)

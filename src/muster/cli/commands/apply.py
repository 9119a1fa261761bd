"""`muster apply`: make objects as their manifests say."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from muster.cli.actions.applying import Manifest, ManifestError, annotated, change, manifests
from muster.cli.completion import names
from muster.cli.names.examples import examples
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
    from muster.cli.terminal.output import say

    found = [one for name in filename for file in _files(name) for one in _read(file)]
    wrong = [one for one in found if isinstance(one, ManifestError)]
    right = [one for one in found if isinstance(one, Manifest)]
    for error in wrong:  # before a cluster is asked for: it may not be there either
        say(f"Error: {error}")
    code = run(_apply(Target.of(options), right, wait=wait, dry_run=dry_run)) if right else 0
    sys.exit(max(code, int(bool(wrong))))


def _files(name: str) -> list[str]:
    path = Path(name)
    if name == "-" or not path.is_dir():
        return [name]
    files = sorted(str(file) for file in path.iterdir() if file.suffix in _SUFFIXES)
    if not files:
        raise click.BadParameter(f"{name}: no {', '.join(f'*{suffix}' for suffix in _SUFFIXES)} in it", param_hint="-f")
    return files


def _read(name: str) -> list[Manifest | ManifestError]:
    source = "stdin" if name == "-" else name
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        return [ManifestError(f"{source}: {error.strerror}")]
    return manifests(data, source)


async def _apply(target: Target, found: list[Manifest], *, wait: bool, dry_run: bool) -> int:
    """Do what can be done of it; 1 if something failed, else the highest code of the jobs that are waited for."""
    from muster.cli.actions.each import attempt
    from muster.cli.commands.wait import follow_all
    from muster.cli.names.discovery import Discovery

    async with connect(target) as session:
        discovery = Discovery(session.client)
        jobs: dict[tuple[str, str], None] = {}

        async def apply(manifest: dict[str, Any]) -> None:
            kind = await discovery.kind(manifest["apiVersion"], manifest["kind"])
            stored, verb = await _apply_one(session, kind, manifest, dry_run=dry_run)
            name = stored["metadata"]["name"]
            click.echo(f"{kind.kind.lower()}{'.' + kind.group if kind.group else ''}/{name} {verb}")
            if wait and kind.resource == "jobs.batch" and _is_suspended(stored):
                click.echo(f"{name}: suspended, not waited for", err=True)
            elif kind.resource == "jobs.batch":
                jobs[stored["metadata"]["namespace"], name] = None

        done = [await attempt(_what(one), apply(one.document)) for one in found]
        waited = await follow_all(session, list(jobs)) if wait and not dry_run else 0
        return max(waited, int(not all(done)))


def _what(manifest: Manifest) -> str:
    """Which object of which file it is."""
    metadata = manifest.document["metadata"]
    return f"{manifest.where}: {manifest.document['kind']} {metadata.get('name') or metadata['generateName']}"


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
    name = metadata.get("name")
    current = await session.client.find(kind, name, namespace) if name else None
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
        raise click.ClickException(f"{_STRICT}{problem}") from None
    same = stored["metadata"]["resourceVersion"] == current["metadata"]["resourceVersion"]
    return stored, ("unchanged" if same and not dry_run else "configured") + mark

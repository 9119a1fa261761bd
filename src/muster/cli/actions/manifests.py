"""Read manifests from files, and send each to the server, for `muster apply` and `muster plan`."""

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from muster.actions.server.session import Session
from muster.api.ours.submitter import SUBMITTED_KINDS
from muster.api.values.manifests import Manifest, ManifestError, parse_manifests
from muster.cli.actions.applying import annotate_manifest, make_apply_patch

_SUFFIXES = (".yaml", ".yml", ".json")
_STRICT = "strict decoding error"


def read_all(names: Iterable[str]) -> list[Manifest | ManifestError]:
    """Return the objects in files, in the files of folders, and in stdin (-), in order.

    A file that cannot be read or parsed yields a `ManifestError` in its place.
    """
    return [one for name in names for file in _list_files(name) for one in _read_manifests(file)]


def _list_files(name: str) -> list[str]:
    path = Path(name)
    if name == "-" or not path.is_dir():
        return [name]
    files = sorted(str(file) for file in path.iterdir() if file.suffix in _SUFFIXES)
    if not files:
        raise click.BadParameter(f"{name}: no {', '.join(f'*{suffix}' for suffix in _SUFFIXES)} in it", param_hint="-f")
    return files


def _read_manifests(name: str) -> list[Manifest | ManifestError]:
    source = "stdin" if name == "-" else name
    if name.lower().startswith(("http://", "https://")):
        return [
            ManifestError(
                f"{name}: muster reads only files and stdin: curl -fsSL {shlex.quote(name)} prints it for -f -"
            )
        ]
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        return [ManifestError(f"{source}: {error.strerror}")]
    return parse_manifests(data, source)


async def apply_one(
    session: Session, kind: Any, manifest: dict[str, Any], *, dry_run: bool, is_likely_new: bool = False
) -> tuple[dict[str, Any], str]:
    """Create or patch an object; return the stored object, and the outcome: created, configured or unchanged.

    With `dry_run`, the outcome says so. Raises `ApiError`, and `click.ClickException` for an unknown field in a patch.

    is_likely_new: whether to create the object without reading it first, and to read it only if the creation fails.
    dry_run: whether the server stores nothing.
    """
    from muster.api.status import ApiError

    metadata = manifest["metadata"]
    namespace = (metadata.get("namespace") or session.namespace) if kind.namespaced else ""
    name = metadata.get("name")
    mark = " (dry run)" if dry_run else ""
    refusal = None
    if is_likely_new:
        try:
            return await _create(session, kind, manifest, namespace, dry_run=dry_run), f"created{mark}"
        except ApiError as error:
            refusal = error
    current = await session.client.find(kind, name, namespace) if name else None
    if current is not None:
        stored, outcome = await _patch_object(session, kind, manifest, current, dry_run=dry_run)
        return stored, outcome + mark
    if refusal is not None:
        raise refusal
    return await _create(session, kind, manifest, namespace, dry_run=dry_run), f"created{mark}"


def _write_options(*, dry_run: bool) -> dict[str, str]:
    return {"fieldValidation": "Strict", "fieldManager": "muster-apply"} | ({"dryRun": "All"} if dry_run else {})


async def _create(
    session: Session, kind: Any, manifest: dict[str, Any], namespace: str, *, dry_run: bool
) -> dict[str, Any]:
    from muster.actions.submission.submitting import sign_manifest
    from muster.runtime.transport import Request

    document = annotate_manifest(manifest)
    body = msgspec.json.encode(sign_manifest(document) if kind.resource in SUBMITTED_KINDS else document)
    request = Request("POST", kind.path(namespace), _write_options(dry_run=dry_run), body)
    stored: dict[str, Any] = msgspec.json.decode((await session.client.raw(request)).body)
    return stored


async def _patch_object(
    session: Session, kind: Any, manifest: dict[str, Any], current: dict[str, Any], *, dry_run: bool
) -> tuple[dict[str, Any], str]:
    """Patch an object so that it equals its manifest; return the stored object, and `configured` or `unchanged`.

    Raises `ApiError`, and `click.ClickException` for an unknown or repeated field.
    """
    from muster.api.status import ApiError
    from muster.runtime.transport import Request

    patch = make_apply_patch(current, manifest)
    if not patch:
        return current, "unchanged"
    path = kind.path(current["metadata"].get("namespace", ""), current["metadata"]["name"])
    options, body = _write_options(dry_run=dry_run), msgspec.json.encode(patch)
    try:
        response = await session.client.raw(Request("PATCH", path, options, body, "application/merge-patch+json"))
    except ApiError as error:
        # The server's message repeats the whole patch before the error.
        _, is_strict, problem = str(error).partition(_STRICT)
        if not is_strict:
            raise
        raise click.ClickException(f"{_STRICT}{problem}") from None
    stored = msgspec.json.decode(response.body)
    same = stored["metadata"]["resourceVersion"] == current["metadata"]["resourceVersion"]
    return stored, "unchanged" if same and not dry_run else "configured"

"""Find the API path of any kind that a server serves, including kinds of other projects."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import click
import msgspec

from muster.api.kinds import Kind
from muster.runtime.client import Client
from muster.runtime.refusals import ignoring
from muster.runtime.transport import Request


@dataclass(slots=True)
class Discovery:
    """A cache of the kinds that a server serves. It reads a group version again only for a kind that it lacks."""

    client: Client
    _known: dict[str, dict[str, Kind[dict[str, Any]]]] = field(default_factory=dict)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)  # requests of the same moment wait for the first read

    async def kind(self, api_version: str, kind: str) -> Kind[dict[str, Any]]:
        """Return the kind by its apiVersion and name. Raises `click.ClickException` if it is not served."""
        async with self._reading:
            if kind not in self._known.get(api_version, ()):  # a manifest before this one may have defined it
                self._known[api_version] = await self._read_kinds(api_version)
        known_kind = self._known[api_version].get(kind)
        if known_kind is None:
            raise click.ClickException(f'the server knows no kind "{kind}" in version "{api_version}"')
        return known_kind

    async def _read_kinds(self, api_version: str) -> dict[str, Kind[dict[str, Any]]]:
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        resources = []
        with ignoring("NotFound"):
            resources = msgspec.json.decode((await self.client.raw(Request("GET", path))).body)["resources"]
        return {
            r["kind"]: Kind(group, version, r["kind"], r["name"], dict[str, Any], namespaced=r["namespaced"])
            for r in resources
            if "/" not in r["name"]
        }

"""Find the engine's Configuration among the manifests of a scenario."""

import msgspec
from msgspec.structs import replace

from muster.api.config import Configuration, ConfigurationError, load
from muster.api.values.manifests import Manifest
from muster.simulation.scenario.reading import Reading
from muster.simulation.scenario.source import ScenarioError

_GROUP = "config.kueue.x-k8s.io/"
_KIND = "Configuration"


def take_configuration(reading: Reading, default: Configuration) -> tuple[Reading, Configuration]:
    """Return the scenario without its Configuration, and that Configuration; `default` if it has none.

    Raises `ScenarioError` if the Configuration is invalid, or if there are several.
    """
    found = [one for one in reading.manifests if _is_configuration(one)]
    if not found:
        return reading, default
    if len(found) > 1:
        first, second, *_ = (one.title_with_line for one in found)
        raise ScenarioError(f"{second}: the scenario has a Configuration already, {first}")
    others = tuple(one for one in reading.manifests if one is not found[0])
    return replace(reading, manifests=others), _load(found[0])


def _is_configuration(manifest: Manifest) -> bool:
    document = manifest.document
    return document["kind"] == _KIND and str(document["apiVersion"]).startswith(_GROUP)


def _load(manifest: Manifest) -> Configuration:
    """Return the settings of a Configuration manifest; missing settings are those of an embedded cluster.

    Raises `ScenarioError` with the first error of the Configuration.
    """
    settings = {field: value for field, value in manifest.document.items() if field != "metadata"}
    try:
        return load(msgspec.json.encode(settings).decode(), embedded=True)
    except ConfigurationError as error:
        first, *more = str(error).splitlines()
        rest = f" (and {len(more)} more)" if more else ""
        raise ScenarioError(f"{manifest.title_with_line}: {first}{rest}") from None

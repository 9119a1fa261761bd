"""Read the settings files that the user names: a Configuration, and an audit policy. A problem is a usage error."""

from typing import Any

import click


def configuration_of(path: str, *, embedded: bool = False) -> Any:
    """Read a Configuration file; return the checked settings. Raises `click.BadParameter`.

    embedded: whether to use the defaults of an embedded cluster.
    """
    return written_configuration(path, embedded=embedded)[1]


def written_configuration(path: str, *, embedded: bool = False) -> tuple[str, Any]:
    """Read the Configuration file that `--config` names; return its text, and the parsed settings.

    Raises `click.BadParameter` if the file cannot be read, or a field is invalid.

    embedded: whether to use the defaults of an embedded cluster.
    """
    from muster.api.config import MAX_BYTES, ConfigurationError, load

    try:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES + 1).decode(errors="surrogateescape")
        return text, load(text, embedded=embedded)
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror}", param_hint="--config") from error
    except ConfigurationError as error:
        lines = str(error).replace("\n", "\n  ")
        raise click.BadParameter(f"{path}:\n  {lines}", param_hint="--config") from error


def read_audit_policy(path: str) -> Any:
    """Read an audit policy file; return the checked policy. Raises `click.BadParameter`."""
    from muster.cluster.apiserver.access.audit_policy import MAX_POLICY_BYTES, PolicyError, parse

    try:
        with open(path, "rb") as file:
            return parse(file.read(MAX_POLICY_BYTES + 1))
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror}", param_hint="--audit-policy") from error
    except PolicyError as error:
        raise click.BadParameter(f"{path}: {error}", param_hint="--audit-policy") from error

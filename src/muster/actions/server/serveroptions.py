"""The options of `muster up`, as stored in the home directory.

A server writes its options into its home when it is ready. `muster up` and `muster restart` then start the same cluster
again, and other commands can read the options of the running server. The command line validates the values.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from muster.actions.errors import UserError
from muster.actions.server.home import Home
from muster.runtime.process.privatefiles import write_private

_MAX_PORT = 65535
# The maximum size of the file in bytes.
_MAX_BYTES = 1 << 20


class ServerOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The options of a server. A field is an option's name with `_` for `-`; files are absolute paths, or ""."""

    port: Annotated[int, msgspec.Meta(ge=0, le=_MAX_PORT)] = 6443
    listen: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ("process",)
    socket: str = ""
    config: str = ""
    audit_policy: str = ""
    log_format: Literal["text", "json"] = "text"


def merge_options(remembered: ServerOptions, user_options: Mapping[str, Any]) -> ServerOptions:
    """Return the stored options, overridden by the options that the user gave."""
    return msgspec.structs.replace(remembered, **user_options)


def describe_options(options: ServerOptions, fields: Sequence[str] = ServerOptions.__struct_fields__) -> str:
    """Return the fields that differ from the defaults, in command-line syntax; "" if none differs."""
    unusual = [field for field in fields if getattr(options, field) != getattr(ServerOptions(), field)]
    return shlex.join(word for field in unusual for word in _list_words(options, field))


def describe_differences(running: ServerOptions, user_options: ServerOptions) -> str:
    """Return a description of the options in which a running server differs from the user's; "" if none differs."""
    different = [one for one in ServerOptions.__struct_fields__ if getattr(running, one) != getattr(user_options, one)]
    return "; ".join(f"{_describe(running, field)}, not {_describe(user_options, field)}" for field in different)


def read_options(home: Home) -> ServerOptions | None:
    """Return the options stored in the home; None if none are stored.

    Raises `UserError` if the file cannot be read or was written by another release, or if another user can change the
    home.
    """
    home.require_ours()
    try:
        with home.options.open("rb") as file:
            content = file.read(_MAX_BYTES)
        return msgspec.json.decode(content, type=ServerOptions)
    except FileNotFoundError:
        return None
    except OSError as error:
        problem = error.strerror or str(error)
    except msgspec.MsgspecError as error:
        problem = str(error)
    raise UserError(
        f"{home.options} does not hold options of this release ({problem}): give the options again, with --forget"
    )


def write_options(home: Home, options: ServerOptions) -> None:
    """Store the options in the home, unless the same options are stored already. Raises `OSError`."""
    content = msgspec.json.encode(options)
    if _read_content(home.options) != content:  # a full disk does not keep the same cluster from starting again
        write_private(home.options, content)


def _read_content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _list_words(options: ServerOptions, field: str) -> list[str]:
    value = getattr(options, field)
    values = value if isinstance(value, tuple) else (value,)
    return [word for each in values if each != "" for word in (_name_option(field), str(each))]


def _describe(options: ServerOptions, field: str) -> str:
    return shlex.join(_list_words(options, field)) or f"no {_name_option(field)}"


def _name_option(field: str) -> str:
    return f"--{field.replace('_', '-')}"

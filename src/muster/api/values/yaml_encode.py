"""Write JSON values as YAML that people and kubectl read alike."""

import re
from typing import Any

import yaml

# Words that kubectl's YAML parser does not read as strings, unlike PyYAML: the dumper quotes them.
_GO_BOOL = re.compile(r"[yYnN]$")
_GO_NUMBER = re.compile(r"[-+]?(0[bBoOxX][0-9A-Fa-f_]+|[0-9_]*\.?[0-9_]*([eE][-+]?[0-9]+)?)$")


class _Dumper(yaml.CSafeDumper):
    """A dumper that writes multi-line strings as blocks, so that commands stay readable."""


def _represent_text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", _GO_BOOL, list("yYnN"))
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _GO_NUMBER, list("-+.0123456789"))


def dump_yaml(document: Any) -> str:
    """Return a JSON value as YAML."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, default_flow_style=False).rstrip()

"""What every object of a kind has from the beginning: members that its types cannot leave out.

A new object is noted as a change of this, so that no client becomes the manager of a `spec` as such.
"""

from typing import Annotated, Any, get_origin

import msgspec

from muster.api.markers import RequiredField
from muster.api.meta import Struct
from muster.cluster.apiserver.decode import Document


def blank(type_: type) -> Document:
    """The members of an object that holds nothing; {} for types that are not ours (custom resources)."""
    if not issubclass(type_, Struct):
        return {}
    found: Document = {}
    for field in msgspec.structs.fields(type_):
        default = field.default
        if isinstance(default, Struct):
            found[field.encode_name] = blank(type(default))
        elif default == () and _is_required(field.type):
            found[field.encode_name] = None
    return found


def _is_required(hint: Any) -> bool:
    return get_origin(hint) is Annotated and any(isinstance(marker, RequiredField) for marker in hint.__metadata__)

"""Check decoded JSON against an OpenAPI v3 schema.

Each `compile_...` function takes a schema and returns a closure. One walk of the closure through a document checks
types, removes unknown fields and stray nulls, and lists the unknown fields. For custom resources it also fills in
defaults and checks values. There are two dialects and a mixture:

- `compile_builtin` is for kinds that upstream decodes into Go structs. The first value of a wrong type raises
  `DecodeError` with the message of Go's decoder. Nulls count as absent, and so do empty lists and maps, which Go's
  encoder omits. The code of each kind checks values and sets defaults.
- `compile_custom` is for the structural schemas of CRDs. Its checker reports all errors, as `FieldError`s. Because
  admission runs between pruning and validation, there are also two halves: `compile_form` prunes and fills in defaults,
  and `compile_judgement` validates.
- `compile_structural` is for kinds that have Muster's types and are CRDs upstream. Its checker treats their metadata as
  `compile_builtin` does, and everything else as `compile_custom` does.

The document itself never changes. The result shares the unchanged parts with it, so `result.value is document` means
that the walk changed nothing.
"""

from muster.cluster.apiserver.schema.builtin import DecodeError, compile_builtin
from muster.cluster.apiserver.schema.custom import (
    compile_custom,
    compile_form,
    compile_judgement,
    compile_part,
    whole_object,
)
from muster.cluster.apiserver.schema.structural import compile_structural, compile_whole
from muster.cluster.apiserver.schema.walk import Checked, Checker, Schema, sound_parts

__all__ = [
    "Checked",
    "Checker",
    "DecodeError",
    "Schema",
    "compile_builtin",
    "compile_custom",
    "compile_form",
    "compile_judgement",
    "compile_part",
    "compile_structural",
    "compile_whole",
    "sound_parts",
    "whole_object",
]

"""Checks decoded JSON against an OpenAPI v3 schema: one closure, one pass.

A schema is compiled once, into a closure that walks a document and, in the same pass, checks types, finds unknown
fields, takes them and stray nulls out, and (for custom resources) fills in defaults and checks values. Two dialects:

- `compile_builtin`: kinds that upstream decodes into Go structs. The first value of a wrong type raises
  `DecodeError` with the sentence of Go's decoder; nulls count as absent, and so do empty lists and maps, which Go's
  encoder would leave out; values and defaults are the business of code.
- `compile_custom`: structural schemas of CRDs. Everything that is wrong is reported, as `FieldError`s. In two halves,
  for admission comes in between: `compile_form` prunes and fills in, `compile_judgement` says what is wrong.

Kinds that we have types of, but that are CRDs upstream, are `compile_structural`: the second, but for their metadata.

The document is never changed: a part that stays as it was is the very same object in the result, so `result.value is
document` says that nothing was to be done.
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

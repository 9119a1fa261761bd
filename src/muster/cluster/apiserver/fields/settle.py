"""Field sets that were noted under another schema: what has become atomic since is owned as a whole."""

from muster.cluster.apiserver.fields.schema import FieldSchema
from muster.cluster.apiserver.fields.sets import SELF, FieldSet


def settled(fields: FieldSet, schema: FieldSchema) -> FieldSet:
    """The field set as the schema has it today; the same object if nothing is to be done.

    What was atomic and is granular now is owned by itself, and nothing in it, as upstream.
    """
    result = fields
    for key, below in fields.items():
        if not below or key == SELF:
            continue
        now = _settled_node(below, _schema_at(key, schema))
        if now is not below:
            if result is fields:
                result = fields.copy()
            result[key] = now
    return result


def _settled_node(below: FieldSet, schema: FieldSchema | None) -> FieldSet:
    if schema is None:
        return below
    return {} if schema.shape == "atomic" else settled(below, schema)


def _schema_at(key: str, schema: FieldSchema) -> FieldSchema | None:
    return schema.member(key[2:]) if key.startswith("f:") else schema.element

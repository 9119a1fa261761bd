"""What both dialects share: the walk compiles a check when a document first needs it."""

from typing import Any

from muster.cluster.apiserver.schema.walk import (
    ABSENT,
    Check,
    Findings,
    Path,
    Schema,
    SchemaDialect,
    ValuePlace,
    compile_check,
)

STRING: Schema = {"type": "string"}
SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "name": STRING,
        "labels": {"type": "object", "additionalProperties": STRING},
        "containers": {"type": "array", "items": {"type": "object", "properties": {"image": STRING, "args": STRING}}},
        "volumes": {"type": "array", "items": {"type": "object", "properties": {"path": STRING}}},
    },
}


def accept(value: Any, _path: Path, _findings: Findings) -> Any:
    return value


def test_a_check_compiles_the_fields_that_documents_have() -> None:
    compiled: list[tuple[str, ...]] = []

    def scalar(_schema: Schema, place: ValuePlace) -> tuple[type | None, Check]:
        compiled.append(place.names)
        return None, accept

    dialect = SchemaDialect(
        scalar=scalar,
        mismatch=lambda _schema, _place: accept,
        member_null=lambda _: ABSENT,
        element_null=lambda _: ABSENT,
        keeps_unknown=lambda _: False,
    )
    check = compile_check(SCHEMA, dialect, ValuePlace(), member=True).check
    assert compiled == []
    document = {"name": "a", "labels": {"b": "c"}, "containers": [{"image": "d"}, {"image": "e"}]}
    for _ in range(2):
        findings = Findings()
        assert check(document | {"other": 1}, None, findings) == document
        assert findings.unknown == ["other"]
    assert compiled == [("name",), ("labels",), ("containers", "image")]

"""Members are compiled when a document first has them, and once."""

from muster.cluster.apiserver.schema.members import LazyMembers


def test_a_member_is_compiled_once_at_its_first_use():
    compiled: list[str] = []

    def compile_member(name: str) -> str:
        compiled.append(name)
        return name.upper()

    members = LazyMembers({"a": {}, "b": {}}, compile_member, rest="other")
    assert compiled == []
    assert [members["a"], members["a"], members["unknown"]] == ["A", "A", "other"]
    assert (compiled, dict(members)) == (["a"], {"a": "A"})

"""A `Kind` joins the name of an API resource with the Python type that views it."""

import builtins
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from muster.api.meta import ListMeta, ObjectMeta, OwnerReference
from muster.api.status import bad_request
from muster.api.validation.names import path_segment

T = TypeVar("T")
U = TypeVar("U")

_encoder = msgspec.json.Encoder()


class Page(msgspec.Struct, Generic[T]):
    """One page of a list, as the server sent it."""

    metadata: ListMeta = ListMeta()
    items: list[T] = []


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """One served kind at one version. `type` is a `Struct`, or `dict` for kinds that we have no view of."""

    group: str  # "" for the core group
    version: str
    kind: str  # "Pod"
    plural: str  # "pods"
    type: type[T]
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`v1`, `batch/v1`: what stands in an object's apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`pods`, `jobs.batch`: the name in messages and the store, the same for all versions."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def names(self) -> dict[str, str]:
        """Group, version and kind, as several documents list them."""
        return {"group": self.group, "version": self.version, "kind": self.kind}

    def is_of(self, owner: OwnerReference) -> bool:
        """Return whether the owner is of this kind: a Job of another group is none of ours."""
        return (owner.api_version, owner.kind) == (self.api_version, self.kind)

    def refer_to_owner(self, meta: ObjectMeta) -> OwnerReference:
        """Return the reference by which an object goes with its owner, one of this kind."""
        return OwnerReference(api_version=self.api_version, kind=self.kind, name=meta.name, uid=meta.uid)

    def refer_to_controller(self, meta: ObjectMeta) -> OwnerReference:
        """Return the reference to the owner that manages an object, and waits for it when it is deleted itself."""
        return OwnerReference(
            api_version=self.api_version,
            kind=self.kind,
            name=meta.name,
            uid=meta.uid,
            controller=True,
            block_owner_deletion=True,
        )

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path; an empty namespace means all of them (for lists and watches).

        Raises `ApiError` (400) for a name that would lead to another path.
        """
        for what, part in (("namespace", namespace), ("resource name", name)):
            if wrong := path_segment(part):
                raise bad_request(f"invalid {what} {part!r}: {', '.join(wrong)}")
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        return "/".join([*parts, self.plural, *filter(None, (name, subresource))])

    def seen_as(self, type_: "builtins.type[U]") -> "Kind[U]":
        """Return the same kind through another type: only its metadata (`Object`), or as plain JSON (`dict`)."""
        return Kind(self.group, self.version, self.kind, self.plural, type_, namespaced=self.namespaced)

    def encode(self, obj: T) -> bytes:
        """Return the object as JSON with its apiVersion and kind."""
        if isinstance(obj, dict):
            return _encoder.encode({"apiVersion": self.api_version, "kind": self.kind} | obj)
        body = _encoder.encode(obj)
        head = f'{{"apiVersion":"{self.api_version}","kind":"{self.kind}"'.encode()
        return head + (b"," + body[1:] if body != b"{}" else b"}")

    def decode(self, body: bytes | msgspec.Raw) -> T:
        """Return the typed view of a JSON object; explicit nulls count as absent."""
        return _decode(self.type, body)  # type: ignore[no-any-return]

    def typed(self, document: Any) -> T:
        """Return the same view of JSON that is decoded already. Raises `msgspec.ValidationError`."""
        try:
            return msgspec.convert(document, self.type)
        except msgspec.ValidationError:
            return msgspec.convert(without_nulls(document), self.type)

    def decode_page(self, body: bytes) -> Page[T]:
        """Return the typed view of a JSON list."""
        return _decode(Page[self.type], body)  # type: ignore[name-defined,no-any-return]


@cache
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


def _decode(type_: Any, body: bytes | msgspec.Raw) -> Any:
    try:
        return _decoder(type_).decode(body)
    except msgspec.ValidationError:
        # Go servers write `null` for some empty lists and times; a second look without them is rarely needed.
        return msgspec.convert(without_nulls(msgspec.json.decode(body)), type_)


def without_nulls(value: Any) -> Any:
    """Return the same JSON value with every null member of an object left out."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value

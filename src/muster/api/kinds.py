"""The kinds of API objects: a `Kind` links an API resource with the Python type of its objects."""

import builtins
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import force_setattr, replace

from muster.api.meta import ListMeta, ObjectMeta, OwnerReference
from muster.api.status import bad_request
from muster.api.validation.names import path_segment

T = TypeVar("T")
U = TypeVar("U")

_encoder = msgspec.json.Encoder()


# A page of fewer bytes hardly has an object. An empty page needs no decoder of its kind, which takes 0.2 ms to make: a
# server starts by listing some eighty kinds, and most have no objects.
_EMPTY_PAGE_BYTES = 256


class Page(msgspec.Struct, Generic[T]):
    """A page of a list from the server."""

    metadata: ListMeta = ListMeta()
    items: list[T] = []


class Kind(msgspec.Struct, Generic[T], frozen=True):
    """A kind of objects at one API version.

    type: a `Struct`, or `dict` for a kind without a Muster type.
    whole: the type that `type` is a smaller view of, whose objects serve as well; None for no such view.
    """

    group: str  # "" for the core group
    version: str
    kind: str  # "Pod"
    plural: str  # "pods"
    type: type[T]
    namespaced: bool = True
    whole: builtins.type[Any] | None = None
    # The name in messages and in the store, which is the same for all versions: `pods`, `jobs.batch`.
    resource: str = ""

    def __post_init__(self) -> None:
        # Computed once, because each write looks it up many times.
        force_setattr(self, "resource", f"{self.plural}.{self.group}" if self.group else self.plural)

    @property
    def api_version(self) -> str:
        """The apiVersion of the objects: `v1`, `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def names(self) -> dict[str, str]:
        """The group, version and kind, as several documents list them."""
        return {"group": self.group, "version": self.version, "kind": self.kind}

    def is_of(self, owner: OwnerReference) -> bool:
        """Return whether a reference's owner is of this kind, by API version (with the group) and kind."""
        return owner.kind == self.kind and owner.api_version == self.api_version

    def refer_to_owner(self, meta: ObjectMeta) -> OwnerReference:
        """Return an owner reference to an object of this kind, given by its metadata; it does not block deletion."""
        return OwnerReference(api_version=self.api_version, kind=self.kind, name=meta.name, uid=meta.uid)

    def refer_to_controller(self, meta: ObjectMeta) -> OwnerReference:
        """Return a controller reference to an object of this kind.

        A foreground deletion of it waits for the dependent object.
        """
        return OwnerReference(
            api_version=self.api_version,
            kind=self.kind,
            name=meta.name,
            uid=meta.uid,
            controller=True,
            block_owner_deletion=True,
        )

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of objects of this kind. An empty namespace means all namespaces (for lists and watches).

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
        """Return the same kind with another type: `Object` for the metadata only, or `dict` for plain JSON."""
        return Kind(self.group, self.version, self.kind, self.plural, type_, namespaced=self.namespaced)

    def viewed_as(self, type_: "builtins.type[T]") -> "Kind[T]":
        """Return the same kind with a type that has fewer fields. An informer of whole objects can serve it, too."""
        return replace(self, type=type_, whole=self.type)

    def encode(self, obj: T) -> bytes:
        """Return the object as JSON with its apiVersion and kind."""
        if isinstance(obj, dict):
            return _encoder.encode({"apiVersion": self.api_version, "kind": self.kind} | obj)
        body = _encoder.encode(obj)
        head = f'{{"apiVersion":"{self.api_version}","kind":"{self.kind}"'.encode()
        return head + (b"," + body[1:] if body != b"{}" else b"}")

    def decode(self, body: bytes | msgspec.Raw) -> T:
        """Decode a JSON object to the type. Explicit nulls count as absent."""
        return _decode(self.type, body)  # type: ignore[no-any-return]

    def typed(self, document: Any) -> T:
        """Convert decoded JSON to the type.

        Raises:
            msgspec.ValidationError: a member has the wrong type.
        """
        try:
            return msgspec.convert(document, self.type)
        except msgspec.ValidationError:
            return msgspec.convert(without_nulls(document), self.type)

    def decode_page(self, body: bytes) -> Page[T]:
        """Decode a JSON list to a page of typed objects."""
        page = _decode_empty_page(body) if len(body) < _EMPTY_PAGE_BYTES else None
        return page or _decode(Page[self.type], body)  # type: ignore[name-defined]


@cache
def _make_decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


def _decode_empty_page(body: bytes) -> Page[Any] | None:
    """Return a page without objects; None if the body has objects, or a null."""
    try:
        page: Page[Any] = _make_decoder(Page[msgspec.Raw]).decode(body)
    except msgspec.ValidationError:
        return None
    return None if page.items else page


def _decode(type_: Any, body: bytes | msgspec.Raw) -> Any:
    try:
        return _make_decoder(type_).decode(body)
    except msgspec.ValidationError:
        # Go servers write `null` for some empty lists and times, so a failed decoding is tried again without nulls.
        return msgspec.convert(without_nulls(msgspec.json.decode(body)), type_)


def without_nulls(value: Any) -> Any:
    """Return the JSON value without the null members of its objects."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value

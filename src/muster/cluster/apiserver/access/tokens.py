"""Tokens of service accounts: what stands in one, and whose it is, as long as what it is bound to is there.

Claims are upstream's (k8s.io/kubernetes, pkg/serviceaccount). A token is good until it ends, its account, or the pod,
secret or node that it is bound to, is gone or was made anew. Checking a signature takes its time and always ends the
same: what it showed is remembered; what may change is looked up every time.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from muster.api.core import NODE, POD, SECRET, SERVICE_ACCOUNT
from muster.api.meta import Object
from muster.cluster.apiserver.access.jwt import BadTokenError, Claims, SigningKey
from muster.cluster.apiserver.access.rules import quoted
from muster.cluster.apiserver.identity.users import TokenCheck, User, account_groups, account_name, account_of
from muster.cluster.store import Entry, Key, Store
from muster.runtime.clock import Clock

ISSUER = "https://kubernetes.default.svc.cluster.local"
AUDIENCES = (ISSUER,)
LEGACY_ISSUER = "kubernetes/serviceaccount"
_REMEMBERED = 4096  # signatures
_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_OF_LEGACY = "kubernetes.io/serviceaccount/"
# A pod's token is good for so long after the pod should have ended.
_GRACE_SECONDS = 60.0


class Reference(Struct, frozen=True):
    """One object, by name and uid."""

    kind: str  # Pod, Secret, Node, ServiceAccount
    name: str
    uid: str


class Subject(Struct, frozen=True):
    """Whose a token is to be, and the objects that it ends with."""

    namespace: str
    account: Reference
    bound: tuple[Reference, ...] = ()


class Owner(Struct, frozen=True):
    """Whose a token is, and for whom it is."""

    user: User
    audiences: tuple[str, ...]


_RESOURCES = {"Pod": POD.resource, "Secret": SECRET.resource, "Node": NODE.resource}


def claims_of(subject: Subject, audiences: Sequence[str], now: datetime, seconds: int, identity: str) -> Claims:
    """What stands in a token that is good from now on. `identity` is unique to the token."""
    start = int(now.timestamp())
    bound = {reference.kind.lower(): _claim(reference) for reference in subject.bound}
    return {
        "aud": list(audiences),
        "exp": start + seconds,
        "iat": start,
        "iss": ISSUER,
        "jti": identity,
        "kubernetes.io": {"namespace": subject.namespace, "serviceaccount": _claim(subject.account), **bound},
        "nbf": start,
        "sub": account_name(subject.namespace, subject.account.name),
    }


def legacy_claims(namespace: str, account: Reference, secret: str) -> Claims:
    """What stands in the token of a secret, which has no end of its own."""
    return {
        "iss": LEGACY_ISSUER,
        f"{_OF_LEGACY}namespace": namespace,
        f"{_OF_LEGACY}secret.name": secret,
        f"{_OF_LEGACY}service-account.name": account.name,
        f"{_OF_LEGACY}service-account.uid": account.uid,
        "sub": account_name(namespace, account.name),
    }


def _claim(reference: Reference) -> dict[str, str]:
    return {"name": reference.name, "uid": reference.uid}


class Tokens:
    """Signs tokens and knows whose they are."""

    def __init__(self, store: Store, clock: Clock, key: SigningKey, fixed: TokenCheck) -> None:
        """`fixed` knows the tokens that are no service account's."""
        self.key = key
        self._fixed = fixed
        self._store = store
        self._clock = clock
        self._verified: dict[bytes, Claims] = {}

    def user(self, token: str) -> User | None:
        """Whose the token is, if it is for this server."""
        try:
            return self.owner(token, AUDIENCES).user
        except BadTokenError:
            return None

    def owner(self, token: str, audiences: Sequence[str]) -> Owner:
        """Whose the token is, if it is for any of these. Raises `BadTokenError`."""
        user = self._fixed(token)
        if user is not None:
            return Owner(user, _shared(AUDIENCES, audiences))
        claims = self._claims(token)
        if claims["iss"] == LEGACY_ISSUER:
            return Owner(self._legacy_user(claims, token), _shared(AUDIENCES, audiences))
        shared = _shared(claims["aud"], audiences)
        now = self._clock.now().timestamp()
        if now >= claims["exp"]:
            raise BadTokenError("service account token has expired")
        if now < claims["nbf"] - _GRACE_SECONDS:
            raise BadTokenError("service account token is not valid yet")
        return Owner(self._bound_user(claims), shared)

    def _claims(self, token: str) -> Claims:
        digest = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
        claims = self._verified.get(digest)
        if claims is None:
            claims = self.key.verify(token)
            if len(self._verified) >= _REMEMBERED:
                self._verified.clear()
            self._verified[digest] = claims
        return claims

    def _bound_user(self, claims: Claims) -> User:
        private = claims["kubernetes.io"]
        namespace: str = private["namespace"]
        account = private["serviceaccount"]
        self._require(SERVICE_ACCOUNT.resource, namespace, account, "service account")
        extra = {_CREDENTIAL: (f"JTI={claims['jti']}",)}
        for kind, resource in _RESOURCES.items():
            reference = private.get(kind.lower())
            if reference is None:
                continue
            if kind != "Node":  # upstream does not look at it unless told to
                self._require(resource, namespace, reference, kind.lower())
            if kind != "Secret":
                prefix = f"authentication.kubernetes.io/{kind.lower()}-"
                extra |= {f"{prefix}name": (reference["name"],), f"{prefix}uid": (reference["uid"],)}
        return User(claims["sub"], account_groups(namespace), account["uid"], extra)

    def _legacy_user(self, claims: Claims, token: str) -> User:
        found = account_of(claims["sub"])
        assert found is not None, "it is we who have signed it"
        namespace, name = found
        uid = claims[f"{_OF_LEGACY}service-account.uid"]
        self._require(SERVICE_ACCOUNT.resource, namespace, {"name": name, "uid": uid}, "service account")
        secret = {"name": claims[f"{_OF_LEGACY}secret.name"], "uid": ""}
        entry = self._require(SECRET.resource, namespace, secret, "secret")
        if SECRET.decode(entry.body).data.get("token") != token.encode():
            raise BadTokenError("the secret has another token")
        return User(claims["sub"], account_groups(namespace), uid)

    def _require(self, resource: str, namespace: str, reference: dict[str, str], what: str) -> Entry:
        """The object. Raises `BadTokenError` unless it is there, the same, and not long past its end."""
        entry = self._store.get(Key(resource, namespace, reference["name"]))
        if entry is None or reference["uid"] not in ("", entry.header.uid):
            raise BadTokenError(f"the {what} of the token is gone")
        if entry.header.deleting and self._is_past(entry):
            raise BadTokenError(f"the {what} of the token has been deleted")
        return entry

    def _is_past(self, entry: Entry) -> bool:
        end = msgspec.json.decode(entry.body, type=Object).metadata.deletion_timestamp
        return end is not None and (self._clock.now() - end).total_seconds() > _GRACE_SECONDS


def _shared(meant: Sequence[str], audiences: Sequence[str]) -> tuple[str, ...]:
    """Those of the audiences that a token is meant for. Raises `BadTokenError` if there are none."""
    shared = tuple(audience for audience in audiences if audience in meant)
    if not shared:
        raise BadTokenError(f"token audiences {quoted(meant)} is invalid for the target audiences {quoted(audiences)}")
    return shared

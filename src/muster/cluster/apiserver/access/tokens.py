"""Decide what the token of a service account contains, and which user a token authenticates.

The claims are upstream's (k8s.io/kubernetes, pkg/serviceaccount). A token is valid until it expires, or until its
account, or the pod or secret that it is bound to, is deleted or recreated. The result of verifying a signature never
changes, so it is cached. The account and the bound objects are looked up each time.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from muster.api.core import NODE, POD, SECRET, SERVICE_ACCOUNT
from muster.api.meta import Object
from muster.cluster.apiserver.access.jwt import BadTokenError, Claims, SigningKey
from muster.cluster.apiserver.access.rules import quote_texts
from muster.cluster.apiserver.identity.users import TokenCheck, User, account_groups, account_name, account_of
from muster.cluster.store import Entry, Key, Store
from muster.runtime.clock import Clock

ISSUER = "https://kubernetes.default.svc.cluster.local"
AUDIENCES = (ISSUER,)
LEGACY_ISSUER = "kubernetes/serviceaccount"
_REMEMBERED = 4096  # verified tokens in the cache
_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_OF_LEGACY = "kubernetes.io/serviceaccount/"
# How long a token stays valid after the deletion timestamp of its account or bound object; also the clock skew allowed.
_GRACE_SECONDS = 60.0


class BoundReference(Struct, frozen=True):
    """A reference to one object, by name and UID."""

    kind: str  # Pod, Secret, Node, ServiceAccount
    name: str
    uid: str


class TokenSubject(Struct, frozen=True):
    """The service account that a token is for, and the objects that the token is bound to."""

    namespace: str
    account: BoundReference
    bound: tuple[BoundReference, ...] = ()


class Owner(Struct, frozen=True):
    """The user that a token authenticates, and the requested audiences that the token is valid for."""

    user: User
    audiences: tuple[str, ...]


_RESOURCES = {"Pod": POD.resource, "Secret": SECRET.resource, "Node": NODE.resource}


def claims_of(subject: TokenSubject, audiences: Sequence[str], now: datetime, seconds: int, identity: str) -> Claims:
    """Return the claims of a token for a service account.

    now: when the token becomes valid.
    seconds: how long the token is valid.
    identity: a unique ID of the token.
    """
    start = int(now.timestamp())
    bound = {reference.kind.lower(): _make_reference_claim(reference) for reference in subject.bound}
    return {
        "aud": list(audiences),
        "exp": start + seconds,
        "iat": start,
        "iss": ISSUER,
        "jti": identity,
        "kubernetes.io": {
            "namespace": subject.namespace,
            "serviceaccount": _make_reference_claim(subject.account),
            **bound,
        },
        "nbf": start,
        "sub": account_name(subject.namespace, subject.account.name),
    }


def legacy_claims(namespace: str, account: BoundReference, secret: str) -> Claims:
    """Return the claims of the token in a Secret, which never expires. secret: the name of the Secret."""
    return {
        "iss": LEGACY_ISSUER,
        f"{_OF_LEGACY}namespace": namespace,
        f"{_OF_LEGACY}secret.name": secret,
        f"{_OF_LEGACY}service-account.name": account.name,
        f"{_OF_LEGACY}service-account.uid": account.uid,
        "sub": account_name(namespace, account.name),
    }


def _make_reference_claim(reference: BoundReference) -> dict[str, str]:
    return {"name": reference.name, "uid": reference.uid}


class Tokens:
    """The tokens that one server accepts: its signing key, and a cache of verified tokens."""

    def __init__(self, store: Store, clock: Clock, key: SigningKey, fixed: TokenCheck) -> None:
        """Make the tokens of a server.

        fixed: returns the user of a token that belongs to no service account, such as the admin's; None for others.
        """
        self.key = key
        self._fixed = fixed
        self._store = store
        self._clock = clock
        self._verified: dict[bytes, Claims] = {}

    def user(self, token: str) -> User | None:
        """Return the user of a token for this server; None if the token is invalid."""
        if (user := self._fixed(token)) is not None:
            return user
        try:
            return self._find_account_owner(token, AUDIENCES).user
        except BadTokenError:
            return None

    def owner(self, token: str, audiences: Sequence[str]) -> Owner:
        """Return the owner of a token that is valid for one of these audiences.

        Raises `BadTokenError` if it is valid for none of them, is invalid or expired, or if its service account or a
        bound object no longer exists.
        """
        if (user := self._fixed(token)) is not None:
            return Owner(user, _match_audiences(AUDIENCES, audiences))
        return self._find_account_owner(token, audiences)

    def _find_account_owner(self, token: str, audiences: Sequence[str]) -> Owner:
        """Return the owner of the token of a service account, as `owner` does."""
        claims = self._verify_claims(token)
        if claims["iss"] == LEGACY_ISSUER:
            return Owner(self._find_legacy_user(claims, token), _match_audiences(AUDIENCES, audiences))
        shared = _match_audiences(claims["aud"], audiences)
        now = self._clock.now().timestamp()
        if now >= claims["exp"]:
            raise BadTokenError("service account token has expired")
        if now < claims["nbf"] - _GRACE_SECONDS:
            raise BadTokenError("service account token is not valid yet")
        return Owner(self._find_bound_user(claims), shared)

    def _verify_claims(self, token: str) -> Claims:
        digest = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
        claims = self._verified.get(digest)
        if claims is None:
            claims = self.key.verify(token)
            if len(self._verified) >= _REMEMBERED:
                self._verified.clear()
            self._verified[digest] = claims
        return claims

    def _find_bound_user(self, claims: Claims) -> User:
        private = claims["kubernetes.io"]
        namespace: str = private["namespace"]
        account = private["serviceaccount"]
        self._require(SERVICE_ACCOUNT.resource, namespace, account, "service account")
        extra = {_CREDENTIAL: (f"JTI={claims['jti']}",)}
        for kind, resource in _RESOURCES.items():
            reference = private.get(kind.lower())
            if reference is None:
                continue
            if kind != "Node":  # upstream does not check the node, either, unless it is configured to
                self._require(resource, namespace, reference, kind.lower())
            if kind != "Secret":
                prefix = f"authentication.kubernetes.io/{kind.lower()}-"
                extra |= {f"{prefix}name": (reference["name"],), f"{prefix}uid": (reference["uid"],)}
        return User(claims["sub"], account_groups(namespace), account["uid"], extra)

    def _find_legacy_user(self, claims: Claims, token: str) -> User:
        account = account_of(claims["sub"])
        assert account is not None, "it is we who have signed it"
        namespace, name = account
        uid = claims[f"{_OF_LEGACY}service-account.uid"]
        self._require(SERVICE_ACCOUNT.resource, namespace, {"name": name, "uid": uid}, "service account")
        secret = {"name": claims[f"{_OF_LEGACY}secret.name"], "uid": ""}
        entry = self._require(SECRET.resource, namespace, secret, "secret")
        if SECRET.decode(entry.body).data.get("token") != token.encode():
            raise BadTokenError("the secret has another token")
        return User(claims["sub"], account_groups(namespace), uid)

    def _require(self, resource: str, namespace: str, reference: dict[str, str], kind: str) -> Entry:
        """Return the object that a token refers to.

        Raises `BadTokenError` if the object is missing, has another UID, or is past its deletion timestamp by more than
        `_GRACE_SECONDS`.

        reference: the name and the UID of the object; the UID "" allows any.
        kind: the name of the object's kind, for errors.
        """
        entry = self._store.get(Key(resource, namespace, reference["name"]))
        if entry is None or reference["uid"] not in ("", entry.header.uid):
            raise BadTokenError(f"the {kind} of the token is gone")
        if entry.header.deleting and self._is_past_grace(entry):
            raise BadTokenError(f"the {kind} of the token has been deleted")
        return entry

    def _is_past_grace(self, entry: Entry) -> bool:
        end = msgspec.json.decode(entry.body, type=Object).metadata.deletion_timestamp
        return end is not None and (self._clock.now() - end).total_seconds() > _GRACE_SECONDS


def _match_audiences(token_audiences: Sequence[str], audiences: Sequence[str]) -> tuple[str, ...]:
    """Return the requested audiences that a token is valid for. Raises `BadTokenError` if there are none.

    token_audiences: the audiences of the token.
    audiences: the requested audiences.
    """
    shared = tuple(audience for audience in audiences if audience in token_audiences)
    if not shared:
        own, targets = quote_texts(token_audiences), quote_texts(audiences)
        raise BadTokenError(f"token audiences {own} is invalid for the target audiences {targets}")
    return shared

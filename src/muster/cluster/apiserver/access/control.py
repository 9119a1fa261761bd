"""Puts together who may do what: rights, reviews, tokens, and the checks of what is written."""

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property

from msgspec import Struct, field

from muster.cluster.apiserver.access.escalation import escalation
from muster.cluster.apiserver.access.jwt import SigningKey
from muster.cluster.apiserver.access.podaccounts import pod_accounts
from muster.cluster.apiserver.access.rbac import Rbac
from muster.cluster.apiserver.access.reviews import Reviews
from muster.cluster.apiserver.access.tokenrequests import ACTION, TokenRequests
from muster.cluster.apiserver.access.tokens import ISSUER, Tokens
from muster.cluster.apiserver.admission.chain import Plugin
from muster.cluster.apiserver.identity.users import User, fixed_tokens
from muster.cluster.apiserver.request.call import Call
from muster.cluster.apiserver.static import StaticAnswer, static_answer
from muster.cluster.store import Store
from muster.runtime.clock import Clock
from muster.runtime.ids import Ids
from muster.runtime.transport import Response


class Trust(Struct, frozen=True):
    """What the server proves itself by, and knows others by.

    key: signs the tokens of service accounts.
    tokens: bearer tokens that have no end, and whose they are.
    authority_pem: the authority's certificate; empty if the server is not reached from outside.
    """

    key: SigningKey = field(default_factory=SigningKey.make)
    tokens: Mapping[str, User] = field(default_factory=dict)
    authority_pem: bytes = b""


class AccessControl:
    """Who may do what at one server."""

    def __init__(self, store: Store, clock: Clock, ids: Ids, trust: Trust) -> None:
        self.trust = trust
        self.rbac = Rbac(store)
        self.tokens = Tokens(store, clock, trust.key, fixed_tokens(trust.tokens))
        self.actions: Mapping[str, Callable[[Call], Awaitable[Response]]] = {
            **Reviews(self.rbac, self.tokens).actions,
            ACTION: TokenRequests(store, self.tokens, clock, ids).create,
        }
        # Pods get a token where there is a way for them to use it.
        self.changing: tuple[Plugin, ...] = (pod_accounts(mount=bool(trust.authority_pem)),)
        self.judging: tuple[Plugin, ...] = (escalation(self.rbac),)

    @cached_property
    def documents(self) -> Mapping[str, StaticAnswer]:
        """By path: by what others check our tokens themselves (OpenID Connect discovery)."""
        configuration = {
            "issuer": ISSUER,
            "jwks_uri": f"{ISSUER}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        return {
            "/.well-known/openid-configuration": static_answer(configuration),
            "/openid/v1/jwks": static_answer({"keys": [self.tokens.key.public]}, "application/jwk-set+json"),
        }

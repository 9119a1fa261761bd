"""Assemble the access control of a server: RBAC, reviews, tokens, and the admission plugins that need them."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from msgspec import Struct, field

from muster.cluster.apiserver.access.escalation import make_escalation_check
from muster.cluster.apiserver.access.jwt import SigningKey
from muster.cluster.apiserver.access.podaccounts import pod_accounts
from muster.cluster.apiserver.access.rbac import Rbac
from muster.cluster.apiserver.access.reviews import Reviews
from muster.cluster.apiserver.access.tokenrequests import ACTION, TokenRequests
from muster.cluster.apiserver.access.tokens import ISSUER, Tokens
from muster.cluster.apiserver.admission.chain import Plugin
from muster.cluster.apiserver.identity.users import User, make_fixed_token_check
from muster.cluster.apiserver.request.call import Call
from muster.cluster.apiserver.static import StaticAnswer, static_answer
from muster.cluster.store import Store
from muster.runtime.clock import Clock
from muster.runtime.ids import Ids
from muster.runtime.transport import Response


class Trust(Struct, frozen=True):
    """The secrets by which the server and its clients authenticate.

    key: signs the tokens of service accounts.
    tokens: the users of the bearer tokens that never expire, by token, such as the admin's.
    authority_pem: the certificate of the cluster's CA; empty if no client outside the process reaches the server.
    """

    key: SigningKey = field(default_factory=SigningKey)
    tokens: Mapping[str, User] = field(default_factory=dict)
    authority_pem: bytes = b""


class AccessControl:
    """The access control of one server: its RBAC rights, tokens, review actions and admission plugins."""

    def __init__(self, store: Store, clock: Clock, ids: Ids, trust: Trust) -> None:
        self.trust = trust
        self.rbac = Rbac(store)
        self.tokens = Tokens(store, clock, trust.key, make_fixed_token_check(trust.tokens))
        self.actions: Mapping[str, Callable[[Call], Awaitable[Response]]] = {
            **Reviews(self.rbac, self.tokens).actions,
            ACTION: TokenRequests(store, self.tokens, clock, ids).create,
        }
        # A pod can use a token only if it can reach the server.
        self.changing: tuple[Plugin, ...] = (pod_accounts(mount=bool(trust.authority_pem)),)
        self.judging: tuple[Plugin, ...] = (make_escalation_check(self.rbac),)

    @property
    def documents(self) -> Mapping[str, Callable[[], StaticAnswer]]:
        """The documents with which other services verify this server's tokens, as functions that make them, by path.

        The documents are defined by OpenID Connect discovery.
        """
        configuration = {
            "issuer": ISSUER,
            "jwks_uri": f"{ISSUER}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        return {
            "/.well-known/openid-configuration": partial(static_answer, configuration),
            "/openid/v1/jwks": self._describe_key,
        }

    def _describe_key(self) -> StaticAnswer:
        return static_answer({"keys": [self.tokens.key.public]}, "application/jwk-set+json")

"""Tokens of service accounts: given, checked, bound to what they are for, and ended."""

import json
from datetime import datetime, timedelta

import jwt
import pytest
from tests.system.apiserver.harness import DEFAULT, PODS, api, pod
from tests.system.apiserver.test_https_front import over_https

from muster.cluster.apiserver.access.jwt import SigningKey
from muster.cluster.apiserver.access.tokens import ISSUER, BoundReference, TokenSubject, claims_of, legacy_claims
from muster.cluster.apiserver.identity.users import AUTHENTICATED, User

ACCOUNTS = f"{DEFAULT}/serviceaccounts"
TOKEN = f"{ACCOUNTS}/robot/token"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
NAME = "system:serviceaccount:default:robot"
GROUPS = ["system:authenticated", "system:serviceaccounts", "system:serviceaccounts:default"]


async def account(api, name="robot"):
    return (await api.made(ACCOUNTS, {"metadata": {"name": name}}))["metadata"]["uid"]


async def token(api, **spec):
    return (await api.made(TOKEN, {"spec": spec}))["status"]["token"]


async def review(api, text, *audiences):
    answer = await api.post(REVIEWS, {"spec": {"token": text, "audiences": list(audiences)}})
    assert answer.status == 201, answer.body
    assert text not in answer.body.decode()
    return answer.json["status"]


@api
async def test_a_token_says_whose_it_is(api):
    uid = await account(api)
    made = await api.made(TOKEN, {"spec": {}})
    now = api.clock.now()
    claims = jwt.decode(made["status"]["token"], options={"verify_signature": False})
    assert claims["kubernetes.io"] == {"namespace": "default", "serviceaccount": {"name": "robot", "uid": uid}}
    assert (claims["sub"], claims["iss"], claims["aud"]) == (NAME, ISSUER, [ISSUER])
    assert claims["exp"] - claims["iat"] == 3600
    assert made["spec"] == {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": None}
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("robot", "default")
    end = datetime.fromisoformat(made["status"]["expirationTimestamp"])
    assert end == now.replace(microsecond=0) + timedelta(hours=1)
    status = await review(api, made["status"]["token"])
    extra = {"authentication.kubernetes.io/credential-id": [f"JTI={claims['jti']}"]}
    assert status == {
        "authenticated": True,
        "audiences": [ISSUER],
        "user": {"username": NAME, "uid": uid, "groups": GROUPS, "extra": extra},
    }


@api
async def test_others_check_it_by_what_we_publish(api):
    await account(api)
    text = await token(api, audiences=["vault"])
    configuration = (await api.get("/.well-known/openid-configuration")).json
    keys = await api.get("/openid/v1/jwks")
    assert (configuration["issuer"], keys.content_type) == (ISSUER, "application/jwk-set+json")
    key = jwt.PyJWKSet.from_json(keys.body.decode()).keys[0]
    assert jwt.decode(text, key, algorithms=["ES256"], audience="vault", issuer=ISSUER, options={"verify_exp": False})


@api
async def test_a_token_is_for_its_audience_alone(api):
    await account(api)
    text = await token(api, audiences=["vault", "mail"])
    assert not (await review(api, text)).get("authenticated")
    assert (await review(api, text, "mail", "other"))["audiences"] == ["mail"]
    assert api.plane.access.tokens.user(text) is None


@api
async def test_a_token_ends(api):
    await account(api)
    text = await token(api, expirationSeconds=600)
    await api.clock.sleep(599)
    assert api.plane.access.tokens.user(text)
    await api.clock.sleep(2)
    status = await review(api, text)
    assert status == {"user": {}, "error": "[invalid bearer token, service account token has expired]"}


@api
async def test_a_token_ends_with_its_account(api):
    await account(api)
    text = await token(api)
    assert api.plane.access.tokens.user(text)
    await api.delete(f"{ACCOUNTS}/robot")
    assert api.plane.access.tokens.user(text) is None
    await account(api)  # another one of the same name
    assert api.plane.access.tokens.user(text) is None


@api
async def test_a_token_of_a_pod_ends_with_it(api):
    await account(api)
    made = await api.made(PODS, pod(serviceAccountName="robot"))
    uid = made["metadata"]["uid"]
    text = await token(api, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": uid})
    user = api.plane.access.tokens.user(text)
    assert user.extra["authentication.kubernetes.io/pod-name"] == ("p",)
    assert user.extra["authentication.kubernetes.io/pod-uid"] == (uid,)
    await api.delete(f"{PODS}/p", gracePeriodSeconds=0)
    assert api.plane.access.tokens.user(text) is None


@api
async def test_a_pod_that_should_have_ended_loses_its_token(api):
    await account(api)
    await api.made(PODS, pod(serviceAccountName="robot", node="n", terminationGracePeriodSeconds=10))
    text = await token(api, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    await api.delete(f"{PODS}/p")
    await api.clock.sleep(60)
    assert api.plane.access.tokens.user(text)
    await api.clock.sleep(60)
    assert api.plane.access.tokens.user(text) is None


BOUND = {"kind": "Pod", "apiVersion": "v1", "name": "p"}


@pytest.mark.parametrize(
    ("spec", "status", "why"),
    [
        ({"expirationSeconds": 599}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": 1 << 33}, 422, "may not specify a duration larger than 2^32 seconds"),
        ({"boundObjectRef": BOUND | {"name": "none"}}, 404, 'pods "none" not found'),
        (
            {"boundObjectRef": BOUND | {"kind": "Job", "apiVersion": "batch/v1"}},
            400,
            "cannot bind token to object of type",
        ),
        ({"boundObjectRef": BOUND}, 400, "to pod running with different serviceaccount name"),
        ({"boundObjectRef": BOUND | {"uid": "other"}}, 409, "does not match the UID in record"),
    ],
)
@api
async def test_what_is_not_given(api, spec, status, why):
    await account(api)
    await api.made(PODS, pod())
    answer = await api.post(TOKEN, {"spec": spec})
    assert (answer.status, why in answer.message) == (status, True), answer.body


@api
async def test_of_whom_and_by_whom(api):
    assert (await api.post(TOKEN, {"spec": {}})).status == 404
    await account(api)
    bob = User("bob", frozenset({AUTHENTICATED}))
    answer = await api.post(TOKEN, {"spec": {}}, user=bob)
    assert answer.message == (
        'serviceaccounts "robot" is forbidden: User "bob" cannot create resource "serviceaccounts/token" '
        'in API group "" in the namespace "default"'
    )
    other = {"metadata": {"name": "else"}, "spec": {}}
    assert (await api.post(TOKEN, other)).status == 400


@api
async def test_the_token_of_a_secret(api):
    uid = await account(api)
    key = api.plane.access.tokens.key
    text = key.sign(legacy_claims("default", BoundReference("ServiceAccount", "robot", uid), "s"))
    assert api.plane.access.tokens.user(text) is None
    secret = {"metadata": {"name": "s"}, "stringData": {"token": text}, "type": "Opaque"}
    await api.made(f"{DEFAULT}/secrets", secret)
    assert api.plane.access.tokens.user(text).name == NAME
    await api.clock.sleep(1e6)
    assert api.plane.access.tokens.user(text)
    assert (await review(api, text, "vault", ISSUER))["audiences"] == [ISSUER]
    assert not (await review(api, text, "vault")).get("authenticated")
    await api.merge(f"{DEFAULT}/secrets/s", {"stringData": {"token": "another"}})
    assert api.plane.access.tokens.user(text) is None


@api
async def test_what_another_key_has_signed_is_nothing(api):
    uid = await account(api)
    subject = TokenSubject("default", BoundReference("ServiceAccount", "robot", uid))
    claims = claims_of(subject, (ISSUER,), api.clock.now(), 3600, "j")
    assert api.plane.access.tokens.user(api.plane.access.tokens.key.sign(claims))
    assert api.plane.access.tokens.user(SigningKey().sign(claims)) is None
    status = await review(api, "nonsense")
    assert status == {"user": {}, "error": "[invalid bearer token, the token cannot be read]"}
    assert (await api.post(REVIEWS, {"spec": {}})).status == 400


# ---- over the wire


async def _given(wire, name):
    """A token of a new account, from a client that may ask for it."""
    body = json.dumps({"metadata": {"name": name}}).encode()
    assert (await wire.ask("POST", ACCOUNTS, body)).status == 201
    answer = await wire.ask("POST", f"{ACCOUNTS}/{name}/token", b'{"spec": {}}')
    return answer.json["status"]["token"]


@over_https
async def test_a_token_lets_its_owner_in(world):
    admin = await world.connect()
    text = await _given(admin, "robot")
    wire = await world.connect(anonymous=True)
    headers = {"authorization": f"Bearer {text}"}
    answer = await wire.ask("GET", PODS, **headers)
    assert answer.status == 403
    assert answer.json["message"] == (
        f'pods is forbidden: User "{NAME}" cannot list resource "pods" in API group "" in the namespace "default"'
    )
    role = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot"}],
    }
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    assert (await admin.ask("POST", path, json.dumps(role).encode())).status == 201
    assert (await wire.ask("GET", PODS, **headers)).status == 200
    assert (await wire.ask("GET", PODS, authorization=f"Bearer {text[:-2]}")).status == 401
    assert (await admin.ask("DELETE", f"{ACCOUNTS}/robot")).status == 200
    assert (await wire.ask("GET", PODS, **headers)).status == 401


@over_https
async def test_others_ask_whose_a_token_is(world):
    admin = await world.connect()
    body = json.dumps({"spec": {"token": world.credentials.token}}).encode()
    answer = await admin.ask("POST", REVIEWS, body)
    assert answer.json["status"]["user"]["username"] == "kubernetes-admin"


@over_https
async def test_pods_get_a_token_where_they_can_use_it(world):
    admin = await world.connect()
    made = (await admin.ask("POST", PODS, json.dumps(pod()).encode())).json["spec"]
    [volume] = made["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    mount = {
        "name": volume["name"],
        "readOnly": True,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    assert made["containers"][0]["volumeMounts"] == [mount]
    without = pod("q", automountServiceAccountToken=False)
    made = (await admin.ask("POST", PODS, json.dumps(without).encode())).json["spec"]
    assert "volumes" not in made
    quiet = {"metadata": {"name": "quiet"}, "automountServiceAccountToken": False}
    await admin.ask("POST", ACCOUNTS, json.dumps(quiet).encode())
    made = (await admin.ask("POST", PODS, json.dumps(pod("r", serviceAccountName="quiet")).encode())).json["spec"]
    assert "volumes" not in made
    loud = pod("s", serviceAccountName="quiet", automountServiceAccountToken=True)
    made = (await admin.ask("POST", PODS, json.dumps(loud).encode())).json["spec"]
    assert len(made["volumes"]) == 1
    like = (
        await admin.ask(
            "POST", PODS, json.dumps(pod("u", serviceAccountName="quiet", automountServiceAccountToken=True)).encode()
        )
    ).json["spec"]
    assert like["containers"] == made["containers"], "so that the engine stores them once"
    copy = pod("t", containers=made["containers"], volumes=made["volumes"])
    made = (await admin.ask("POST", PODS, json.dumps(copy).encode())).json["spec"]
    assert len(made["volumes"]) == 1

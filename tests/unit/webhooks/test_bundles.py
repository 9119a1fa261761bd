"""Where the server is told of the authority, and where it has heard already."""

from base64 import b64encode
from typing import Any

import msgspec
import pytest

from muster.api.config import DEFAULT
from muster.api.patch import json as json_patch
from muster.api.server.admissionregistration import MUTATING_WEBHOOK_CONFIGURATION
from muster.api.server.apiregistration import API_SERVICE
from muster.webhooks.bundles import Definition, of_configuration, of_definition, of_service
from muster.webhooks.configurations import webhook_configurations
from muster.webhooks.endpoints import Endpoint, ServiceEndpoint, UrlEndpoint, make_conversion

BUNDLE = b"pem"
NAMES = ("s.ns.svc", "localhost", "127.0.0.1")
TEXT = b64encode(BUNDLE).decode()


def test_every_webhook_is_told_once() -> None:
    document = webhook_configurations(DEFAULT)[0]
    edits = of_configuration(MUTATING_WEBHOOK_CONFIGURATION.typed(document), BUNDLE, NAMES)
    told = json_patch.apply(document, edits)
    assert {hook["clientConfig"]["caBundle"] for hook in told["webhooks"]} == {TEXT}
    assert of_configuration(MUTATING_WEBHOOK_CONFIGURATION.typed(told), BUNDLE, NAMES) == []


@pytest.mark.parametrize("endpoint", [ServiceEndpoint("ns", "s"), UrlEndpoint("https://127.0.0.1:9443")])
def test_so_is_a_definition_whose_objects_we_convert(endpoint: Endpoint) -> None:
    document: dict[str, Any] = {"spec": {"conversion": make_conversion(endpoint)}}
    told = json_patch.apply(document, of_definition(msgspec.convert(document, Definition), BUNDLE, NAMES))
    assert told["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] == TEXT
    assert of_definition(msgspec.convert(told, Definition), BUNDLE, NAMES) == []


@pytest.mark.parametrize(
    "conversion",
    [
        None,
        {"strategy": "None"},
        make_conversion(ServiceEndpoint("other", "s")),
        make_conversion(ServiceEndpoint("ns", "other")),
        make_conversion(UrlEndpoint("https://elsewhere")),
        make_conversion(UrlEndpoint("https://127.0.0.1:9443/other")),
        make_conversion(UrlEndpoint("https://[")),
    ],
)
def test_others_are_let_alone(conversion: Any) -> None:
    document = {"spec": {"conversion": conversion}}
    assert of_definition(msgspec.convert(document, Definition), BUNDLE, NAMES) == []


@pytest.mark.parametrize("unchecked", [{}, {"insecureSkipTLSVerify": False}, {"insecureSkipTLSVerify": True}])
def test_of_an_api_service_the_certificate_is_checked(unchecked: Any) -> None:
    document: dict[str, Any] = {"spec": {"service": {"namespace": "ns", "name": "s"}, **unchecked}}
    told = json_patch.apply(document, of_service(API_SERVICE.typed(document), BUNDLE, NAMES))
    assert told["spec"]["caBundle"] == TEXT
    assert not told["spec"].get("insecureSkipTLSVerify")
    assert of_service(API_SERVICE.typed(told), BUNDLE, NAMES) == []


@pytest.mark.parametrize("service", [None, {"namespace": "ns", "name": "other"}, {"namespace": "other", "name": "s"}])
def test_one_of_others_is_let_alone(service: Any) -> None:
    assert of_service(API_SERVICE.typed({"spec": {"service": service}}), BUNDLE, NAMES) == []

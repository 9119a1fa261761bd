"""The scale subresource of custom resources. The definition names the paths of its replicas."""

from collections.abc import Callable, Sequence
from typing import Any

from muster.api.members import value_at
from muster.api.server.apiextensions import CustomResourceSubresourceScale
from muster.api.status import FieldError
from muster.api.validation.fields import invalid
from muster.cluster.apiserver.custom.jsonpath import simple_names
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.objects import views
from muster.cluster.apiserver.registry.resources import VIEW_VERBS, Subresource, View


def scale_subresource(
    paths: CustomResourceSubresourceScale, validate: Callable[[Document, Document], Sequence[FieldError]]
) -> Subresource:
    """Return the scale subresource of a custom resource.

    paths: where the object has its numbers of replicas and its selector.
    validate: returns the errors of an update of the whole object, from the new and the old object.
    """
    wanted = simple_names(paths.spec_replicas_path)
    current = simple_names(paths.status_replicas_path)
    selector = simple_names(paths.label_selector_path) if paths.label_selector_path else None

    def show(document: Document) -> Document:
        status: dict[str, Any] = {"replicas": _get_number(value_at(document, current))}
        if selector is not None:
            status["selector"] = _get_text(value_at(document, selector))
        # An object without a number of replicas can be scaled too: its scale shows 0.
        return views.scale_of(document, _get_number(value_at(document, wanted)), status)

    def take(stored: Document, written: Document) -> Document:
        return _set_nested(views.with_metadata(stored, written), wanted, views.wanted_replicas(written))

    def take_config(stored: Document, config: Document) -> Document:
        version = {name: stored[name] for name in ("apiVersion", "kind")}
        return _set_nested(version, wanted, views.wanted_replicas(config)) | {"metadata": config["metadata"]}

    def validate_update(new: Document, old: Document) -> Sequence[FieldError]:
        replicas = _get_number(value_at(new, wanted))
        if replicas < 0:
            return [invalid(paths.spec_replicas_path, replicas, "should be a non-negative integer")]
        return validate(new, old)

    view = View(views.SCALE, show, take, validate_update=validate_update, take_config=take_config)
    return Subresource("scale", views.SCALE, VIEW_VERBS, view)


def _get_number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _get_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _set_nested(document: Document, names: tuple[str, ...], value: Any) -> Document:
    """Return a copy of the document with this value at nested names."""
    name, *rest = names
    if not rest:
        return document | {name: value}
    inner = document.get(name)
    return document | {name: _set_nested(inner if isinstance(inner, dict) else {}, tuple(rest), value)}

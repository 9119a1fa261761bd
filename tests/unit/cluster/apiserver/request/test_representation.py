"""What clients accept."""

import pytest

from muster.api.status import ApiError
from muster.cluster.apiserver.request.representation import form_of

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", "object"),
        ("*/*", "object"),
        ("application/json", "object"),
        ("APPLICATION/JSON", "object"),
        ("application/vnd.kubernetes.protobuf, */*", "object"),
        (f"{TABLE},application/json", "table"),
        ("application/json;g=meta.k8s.io;v=v1;as=Table", "table"),
        ("application/json; as=PartialObjectMetadataList; v=v1; g=meta.k8s.io", "metadata"),
        ("application/json;as=Table;v=v2;g=meta.k8s.io,application/json", "object"),
        (f"application/json;q=0.5,{TABLE};q=0.9", "table"),
        ("text/html", None),
        ("application/yaml", None),
        ("application/vnd.kubernetes.protobuf", None),
        ("application/json;as=Table;v=v1;g=other", None),
    ],
)
def test_forms(accept, form):
    if form is None:
        with pytest.raises(ApiError) as error:
            form_of(accept)
        assert error.value.code == 406
    else:
        assert form_of(accept) == form

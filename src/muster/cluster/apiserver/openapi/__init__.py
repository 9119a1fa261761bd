"""OpenAPI documents: v3 by group version, which kubectl goes by, and v2 as one document, for older clients.

kubectl (1.27 and later) reads v3 and turns to v2, which it wants in protobuf, only where v3 is missing. In v3 it looks
for three things:

- the `fieldValidation` parameter of a kind's PATCH: then the server validates, and kubectl does not;
- `application/strategic-merge-patch+json` among that operation's types, and merge keys in the schemas: `apply`, `diff`;
- schemas, with descriptions, found through `x-kubernetes-group-version-kind`: `explain`.
"""

from muster.cluster.apiserver.openapi.documents import OpenApi

__all__ = ["OpenApi"]

"""OpenAPI documents: v3 by group version, which kubectl goes by, and v2 as one document, for older clients.

kubectl goes by v3; release 1.28 wants to have read v2 before, which it does in protobuf only. In v3 it looks for three
things:

- the `fieldValidation` parameter of a kind's PATCH: then the server validates, and kubectl does not;
- `application/strategic-merge-patch+json` among that operation's types, and merge keys in the schemas: `apply`, `diff`;
- schemas, with descriptions, found through `x-kubernetes-group-version-kind`: `explain`.
"""

from muster.cluster.apiserver.openapi.documents import OpenApi

__all__ = ["OpenApi"]

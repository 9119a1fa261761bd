"""The OpenAPI documents of the server: v3 with one document for each group version, and v2 as one document.

kubectl uses v3. kubectl 1.28 reads v2 first, and only in protobuf. kubectl looks for three things in v3:

- The `fieldValidation` parameter of a kind's PATCH. If the parameter exists, kubectl leaves validation to the server.
- The media type `application/strategic-merge-patch+json` of that PATCH, and merge keys in the schemas, for `apply` and
  `diff`.
- Schemas with descriptions, by `x-kubernetes-group-version-kind`, for `explain`.
"""

from muster.cluster.apiserver.openapi.documents import OpenApi

__all__ = ["OpenApi"]

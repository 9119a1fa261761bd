"""Name the Kubernetes release that the server, its nodes and the OpenAPI documents report."""

# The release whose batch/v1 and core/v1 the server implements. In it, podReplacementPolicy and per-index back-off of
# Jobs are stable, and pods count their generation. Clients switch features by the number, so it must not be higher.
MAJOR, MINOR = "1", "34"
GIT_VERSION = f"v{MAJOR}.{MINOR}.0+muster"

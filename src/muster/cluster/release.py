"""Which Kubernetes this is: what is said by the server, its nodes, the OpenAPI documents."""

# The release whose batch/v1 and core/v1 we speak: its Jobs have podReplacementPolicy and per-index back-off for good,
# and its pods count their generation. Clients switch features by the number, so it must not be higher.
MAJOR, MINOR = "1", "34"
GIT_VERSION = f"v{MAJOR}.{MINOR}.0+muster"

"""Explain why a request was refused (no right, no such kind, no response of a webhook), and what to do. Pure."""

import re

# RBAC's own sentence, as every API server sends it.
_NO_RIGHT = (
    r'(?:(?P<named>\S+ "[^"]*")|\S+)? ?(?:is )?forbidden: User "(?P<user>[^"]*)" cannot (?P<verb>\S+) '
    r'(?:resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"|path "(?P<path>[^"]+)")'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)

# The error of a required webhook that did not respond: its name, its URL, and the cause.
_NO_ANSWER = (
    r'(?:.*: )?failed calling webhook "(?P<name>[^"]+)": '
    r'(?:failed to call webhook: )?(?:\w+ "(?P<url>[^"]*)": )?(?P<why>.*)'
)
_BEHIND_SERVICE = r"https://(?P<service>[^./:]+)\.(?P<namespace>[^./:]+)\.svc(?::\d+)?/"

# The meaning of the error Unauthorized of a server.
UNKNOWN_CREDENTIAL = (
    "the server does not accept the token or certificate of your kubeconfig (Unauthorized): it was withdrawn, it has "
    "expired, or it is of another cluster; ask whoever gave you the kubeconfig for a new one"
)

# The project that defines the kinds of an API group, if users know it by another name.
_PROJECTS = {
    "kueue.x-k8s.io": "Kueue",
    "visibility.kueue.x-k8s.io": "Kueue's visibility API",
    "jobset.x-k8s.io": "JobSet",
}


def explain_missing_right(message: str) -> str:
    """Return one line that says which right is missing and who can grant it.

    Return "" if the request was refused for another reason.
    """
    match = re.match(_NO_RIGHT, message)
    if match is None:
        return ""
    if match["path"]:
        return _advise_to_ask(match, f"{match['verb']} {match['path']}", "the cluster")
    resource, _, subresource = match["resource"].partition("/")
    full = f"{resource}.{match['group']}" if match["group"] else resource
    what = f"{match['verb']} {full}" + (f"/{subresource}" if subresource else "")
    if match["named"] and not subresource:
        what = f"{match['verb']} {match['named']}"
    if match["namespace"]:
        return _advise_to_ask(match, f"{what} in namespace {match['namespace']}", "the namespace")
    return _advise_to_ask(match, f"{what} in the whole cluster", "the cluster")


def _advise_to_ask(match: "re.Match[str]", action: str, owner: str) -> str:
    return f"you ({match['user']}) may not {action}; ask the administrator of {owner} for that right"


def explain_missing_kind(group: str, version: str, plural: str) -> str:
    """Return a line that says that a cluster does not serve a kind, and which project has to be installed."""
    return (
        f"this cluster has no {plural} of {group}/{version}: {_PROJECTS.get(group, group)} is not installed there, "
        "or in another version; ask the administrator of the cluster"
    )


def explain_silent_webhook(message: str) -> str:
    """Return one line that says which webhook did not respond, and where its program runs; "" for another error."""
    match = re.fullmatch(_NO_ANSWER, message)
    if match is None:
        return ""
    name, url, why = match["name"], match["url"] or "", match["why"]
    behind = re.match(_BEHIND_SERVICE, url)
    if behind is None:
        place, look = url.partition("?")[0] or "its program", "start it, or ask the administrator of the cluster"
    else:
        place, namespace = f"Service {behind['service']} of namespace {behind['namespace']}", behind["namespace"]
        look = f"look for its pods with kubectl get pods -n {namespace}, or ask the administrator of the cluster"
    return f"nothing was stored: {place}, which the server asks first (webhook {name}), does not answer: {why}; {look}"

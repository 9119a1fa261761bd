"""The packages that a client-only installation lacks, and the message about a missing package.

The extra `server` of the distribution installs them. Commands that connect to a cluster work without them. An embedded
cluster needs all of them, and forecasts of placement need numpy.
"""

PACKAGES = frozenset({"cel_expr_python", "httptools", "jinja2", "jwt", "numpy", "pynvml", "uvloop", "websockets"})


def check_packages() -> None:
    """Raise `ModuleNotFoundError` if a package that a server needs is missing.

    The check is needed because a server imports some packages only after its start.
    """
    from importlib.util import find_spec

    for package in sorted(PACKAGES):
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"no module {package}", name=package)


def describe_missing(needing: str, missing: ModuleNotFoundError) -> str:
    """Return a sentence with the missing package and how to install it; "" if another module is missing.

    needing: the feature that needs the package, such as `muster up`.
    """
    package = (missing.name or "").partition(".")[0]
    if package not in PACKAGES:
        return ""
    return f"{needing} needs {package}, which a client-only installation lacks: pip install 'muster-batch[server]'"

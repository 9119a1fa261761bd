"""Parse the text of a kubeconfig into a `ConnectionConfig`. Pure.

The rules are client-go's. Of several files, the first that defines a cluster, a user, a context or the current context
wins, entry by entry. Inline data win over the file of the same name. Relative paths are relative to the kubeconfig.

Invariants: nothing here opens a file or reads the environment; an error names the file and the field and quotes no
secret; an entry that the chosen context does not use is checked only for its types.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import msgspec
import yaml

from muster.api.kinds import without_nulls
from muster.api.values.yaml_decode import is_nesting_error
from muster.runtime.kube.kubeconfig import (
    EXEC_API_VERSIONS,
    EXEC_EXTENSION,
    ClusterConfig,
    Confidential,
    ConnectionConfig,
    ExecConfig,
    Impersonation,
    KubeconfigError,
    UserConfig,
)

# The limit of one stored object; real kubeconfigs have a few kilobytes per cluster.
MAX_BYTES = 1 << 20
# A kubeconfig is six levels deep, extensions may add some. libyaml overflows the C stack at some ten thousand.
MAX_DEPTH = 64
_TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep"
_EXPECTED = "that is YAML or JSON with clusters, users and contexts"


class _ExecEnv(msgspec.Struct):
    name: str = ""
    value: str = ""


class _Exec(msgspec.Struct, rename="camel"):
    api_version: str = ""
    command: str = ""
    args: list[str] = []
    env: list[_ExecEnv] = []
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class _AuthProvider(msgspec.Struct):
    name: str = ""


class _Extension(msgspec.Struct):
    name: str = ""
    extension: Any = None


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[_Extension] = []


class _User(msgspec.Struct, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    act_as: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}
    auth_provider: _AuthProvider | None = None
    exec: _Exec | None = None


class _Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster = msgspec.field(default_factory=_Cluster)


class _NamedUser(msgspec.Struct):
    name: str
    user: _User = msgspec.field(default_factory=_User)


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context = msgspec.field(default_factory=_Context)


class _File(msgspec.Struct):
    api_version: str = msgspec.field(default="", name="apiVersion")
    kind: str = ""
    current_context: str = msgspec.field(default="", name="current-context")
    clusters: list[_NamedCluster] = []
    contexts: list[_NamedContext] = []
    users: list[_NamedUser] = []


class _Place(msgspec.Struct, frozen=True):
    """The position of an entry in a kubeconfig, for messages and to resolve relative paths.

    directory: the start of relative paths; None if the kubeconfig is not a file.
    """

    source: str
    path: str  # users[0].user
    directory: Path | None

    def fail(self, name: str, problem: str) -> NoReturn:
        raise KubeconfigError(f"{self.source}: {self.path}.{name}: {problem}")

    def file(self, name: str, text: str) -> Path | None:
        """Return the path in a field; None for an empty field. Raises `KubeconfigError`."""
        if not text:
            return None
        path = Path(text)
        if path.is_absolute():
            return path
        if self.directory is None:
            self.fail(name, f"{text!r} is relative, but there is no kubeconfig file that it could be relative to")
        return self.directory / path

    def data(self, name: str, text: str, marker: bytes) -> bytes | None:
        """Return the PEM text that a field contains in base64; None for an empty field. Raises `KubeconfigError`.

        marker: a text that the PEM data must contain.
        """
        if not text:
            return None
        try:
            value = base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError):
            self.fail(name, "is not base64")
        if marker not in value:
            self.fail(name, f"holds no PEM {marker.decode()!r} block")
        return value

    def pem(self, entry: Any, name: str, marker: bytes) -> tuple[bytes | None, Path | None]:
        """Return the data in the field `name-data`, and None; without it, None, and the path in the field `name`.

        marker: a text that the PEM data must contain.
        """
        attribute = name.replace("-", "_")
        inline = self.data(f"{name}-data", getattr(entry, f"{attribute}_data"), marker)
        return inline, None if inline else self.file(name, getattr(entry, attribute))


class Kubeconfig(Confidential, frozen=True):
    """One kubeconfig, or several merged."""

    secrets = ("clusters", "users", "contexts")

    source: str
    current_context: str = ""
    clusters: Mapping[str, tuple[_Place, _Cluster]] = {}
    users: Mapping[str, tuple[_Place, _User]] = {}
    contexts: Mapping[str, tuple[_Place, _Context]] = {}

    def connection(self, context: str = "") -> ConnectionConfig:
        """Return the connection of a context; "" means the current context. Raises `KubeconfigError`."""
        name = context or self.current_context
        if not name:
            raise KubeconfigError(
                f"{self.source}: current-context is not set; {_describe_choice('contexts', self.contexts)}"
            )
        if name not in self.contexts:
            field = "context" if context else "current-context"
            raise KubeconfigError(
                f"{self.source}: {field} {name!r} does not exist; {_describe_choice('contexts', self.contexts)}"
            )
        place, entry = self.contexts[name]
        if entry.cluster not in self.clusters:
            place.fail("cluster", f"{entry.cluster!r} does not exist; {_describe_choice('clusters', self.clusters)}")
        if entry.user and entry.user not in self.users:
            place.fail("user", f"{entry.user!r} does not exist; {_describe_choice('users', self.users)}")
        at_cluster, cluster = self.clusters[entry.cluster]
        at_user, user = self.users[entry.user] if entry.user else (place, _User())
        return ConnectionConfig(
            cluster=_parse_cluster(at_cluster, cluster),
            user=_parse_user(at_user, user),
            namespace=entry.namespace or "default",
            context=name,
            source=place.source,
            overruled_files=_list_overruled(cluster, "certificate-authority")
            | _list_overruled(user, "client-certificate", "client-key"),
        )

    def only_cluster(self) -> ClusterConfig:
        """Return the only cluster in the file, without using a context.

        Raises `KubeconfigError` unless there is exactly one, which is valid.
        """
        if len(self.clusters) != 1:
            raise KubeconfigError(f"{self.source}: names {len(self.clusters)} clusters, and one was expected")
        [entry] = self.clusters.values()
        return _parse_cluster(*entry)


def parse(data: bytes, source: str, directory: Path | None = None) -> Kubeconfig:
    """Return the kubeconfig in a YAML or JSON text. Raises `KubeconfigError`.

    source: the name of the file, for messages.
    directory: the start of relative paths; None if there is no file.
    """
    if len(data) > MAX_BYTES:
        raise KubeconfigError(f"{source}: has {len(data)} bytes, more than the {MAX_BYTES} that a kubeconfig may have")
    return from_dict(_decode_yaml(data, source), source, directory)


def from_dict(document: Any, source: str, directory: Path | None = None) -> Kubeconfig:
    """Return the kubeconfig in decoded YAML; an empty kubeconfig for None, as upstream. Raises `KubeconfigError`."""
    try:
        file = msgspec.convert(without_nulls({} if document is None else document), _File)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `")
        if not path and problem.startswith("Expected `object`"):
            raise KubeconfigError(f"{source}: is not a kubeconfig: {_EXPECTED}") from None
        where = path.rstrip("`").removeprefix("$").lstrip(".")
        hint = (
            "; put it in quotes" if problem.startswith(("Expected `str`, got `int`", "Expected `str`, got `fl")) else ""
        )
        raise KubeconfigError(": ".join(filter(None, (source, where, problem + hint)))) from None
    if file.kind not in ("", "Config") or file.api_version not in ("", "v1"):
        what = f"{file.api_version} {file.kind}".strip()
        raise KubeconfigError(f"{source}: is a {what!r}, not a kubeconfig (apiVersion v1, kind Config)")
    return Kubeconfig(
        source=source,
        current_context=file.current_context,
        clusters=_index_by_name("cluster", file.clusters, source, directory),
        users=_index_by_name("user", file.users, source, directory),
        contexts=_index_by_name("context", file.contexts, source, directory),
    )


def merge(configs: Sequence[Kubeconfig]) -> Kubeconfig:
    """Return several kubeconfigs as one. The first wins, entry by entry."""
    clusters: dict[str, tuple[_Place, _Cluster]] = {}
    users: dict[str, tuple[_Place, _User]] = {}
    contexts: dict[str, tuple[_Place, _Context]] = {}
    for config in configs:
        clusters = clusters | {name: entry for name, entry in config.clusters.items() if name not in clusters}
        users = users | {name: entry for name, entry in config.users.items() if name not in users}
        contexts = contexts | {name: entry for name, entry in config.contexts.items() if name not in contexts}
    current = next((config.current_context for config in configs if config.current_context), "")
    return Kubeconfig(":".join(config.source for config in configs), current, clusters, users, contexts)


class _Loader(yaml.CSafeLoader):
    """A YAML loader for kubectl's files: it knows no timestamps, and does not read yes, no, on and off as booleans."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - a class attribute of the base
        first: [(tag, regexp) for tag, regexp in resolvers if tag.rpartition(":")[2] in ("int", "float", "null")]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf"))


def _decode_yaml(data: bytes, source: str) -> Any:
    depth = 0
    try:
        for event in yaml.parse(data, Loader=_Loader):
            if isinstance(event, yaml.AliasEvent):
                raise KubeconfigError(
                    f"{_describe_position(source, event.start_mark)}: YAML aliases are not supported here"
                )
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise KubeconfigError(f"{_describe_position(source, event.start_mark)}: {_TOO_DEEP}")
        return yaml.load(data, _Loader)  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        if is_nesting_error(error):
            raise KubeconfigError(f"{_describe_position(source, error.problem_mark)}: {_TOO_DEEP}") from None
        # The error's own text would quote the line, which may hold a token.
        raise KubeconfigError(
            f"{_describe_position(source, error.problem_mark)}: is not YAML: {error.problem}"
        ) from None
    except KubeconfigError:
        raise
    except (yaml.YAMLError, ValueError):
        raise KubeconfigError(f"{source}: is not a text file in YAML") from None


def _describe_position(source: str, mark: Any) -> str:
    return source if mark is None else f"{source}: line {mark.line + 1}"


def _index_by_name(
    noun: str, entries: Sequence[Any], source: str, directory: Path | None
) -> dict[str, tuple[_Place, Any]]:
    entry_by_name: dict[str, tuple[_Place, Any]] = {}
    for index, entry in enumerate(entries):
        place = _Place(source, f"{noun}s[{index}].{noun}", directory)
        if entry.name in entry_by_name:
            raise KubeconfigError(f"{source}: {noun}s[{index}].name: {entry.name!r} is there twice")
        entry_by_name[entry.name] = (place, getattr(entry, noun))
    return entry_by_name


def _describe_choice(noun: str, names: Mapping[str, Any]) -> str:
    return f"there are {noun} {', '.join(map(repr, sorted(names)))}" if names else f"there are no {noun}"


def _list_overruled(entry: _Cluster | _User, *names: str) -> frozenset[str]:
    """Return the fields with file names that are ignored because inline data exist as well."""
    pairs = ((name, name.replace("-", "_")) for name in names)
    return frozenset(
        name for name, attribute in pairs if getattr(entry, attribute) and getattr(entry, f"{attribute}_data")
    )


def _parse_cluster(place: _Place, entry: _Cluster) -> ClusterConfig:
    _check_url(place, "server", entry.server, ("https", "http"))
    if urlsplit(entry.server).username is not None:
        place.fail("server", "a user name and password in the URL are not supported; put them into the user's entry")
    if entry.proxy_url:
        _check_url(place, "proxy-url", entry.proxy_url, ("http", "https"))
    authority, authority_file = place.pem(entry, "certificate-authority", b"CERTIFICATE")
    if entry.insecure_skip_tls_verify and (authority or authority_file):
        place.fail("insecure-skip-tls-verify", "cannot be combined with a certificate authority; remove one of them")
    return ClusterConfig(
        server=entry.server.rstrip("/"),
        certificate_authority=authority,
        certificate_authority_file=authority_file,
        insecure_skip_tls_verify=entry.insecure_skip_tls_verify,
        tls_server_name=entry.tls_server_name,
        proxy_url=entry.proxy_url,
        disable_compression=entry.disable_compression,
        exec_extension=next((e.extension for e in entry.extensions if e.name == EXEC_EXTENSION), None),
    )


def _check_url(place: _Place, name: str, text: str, schemes: tuple[str, ...]) -> None:
    """Raise `KubeconfigError` unless a field contains a URL with one of these schemes.

    The message does not repeat a proxy's URL, which may contain a password.
    """
    expected = " or ".join(f"{scheme}://" for scheme in schemes)
    if not text:
        place.fail(name, f"is missing; it is a URL such as {schemes[0]}://host:6443")
    try:
        url = urlsplit(text)
        port_is_valid = url.port != 0
    except ValueError:
        place.fail(name, "is not a URL; look at its port and brackets")
    if url.scheme not in schemes:
        place.fail(name, f"must start with {expected}")
    if not url.hostname or not port_is_valid or any(c.isspace() or not c.isprintable() for c in text):
        place.fail(name, "is not a URL with a host")
    if url.query or url.fragment:
        place.fail(name, "must have no query and no fragment")


def _parse_user(place: _Place, entry: _User) -> UserConfig:
    if entry.auth_provider is not None:
        place.fail("auth-provider", _advise_on_auth_provider(entry.auth_provider.name))
    if entry.token and entry.username:
        place.fail("username", "cannot be combined with token; remove one of them")
    certificate, certificate_file = place.pem(entry, "client-certificate", b"CERTIFICATE")
    key, key_file = place.pem(entry, "client-key", b"PRIVATE KEY")
    if bool(certificate or certificate_file) != bool(key or key_file):
        missing = "client-key" if certificate or certificate_file else "client-certificate"
        place.fail(missing, f"is missing: a client certificate and its key go together ({missing}-data or {missing})")
    return UserConfig(
        token=entry.token.strip(),
        token_file=place.file("tokenFile", entry.token_file),
        username=entry.username,
        password=entry.password,
        client_certificate=certificate,
        client_certificate_file=certificate_file,
        client_key=key,
        client_key_file=key_file,
        exec=None if entry.exec is None else _parse_exec(place, entry.exec),
        impersonation=_parse_impersonation(place, entry),
    )


def _advise_on_auth_provider(name: str) -> str:
    instead = {
        "oidc": "use the kubelogin exec plugin (https://github.com/int128/kubelogin, `kubectl oidc-login setup`)",
        "azure": "run `kubelogin convert-kubeconfig` (https://github.com/Azure/kubelogin)",
        "gcp": "install gke-gcloud-auth-plugin and run `gcloud container clusters get-credentials` again",
    }.get(name, "use an exec plugin, such as kubelogin for OpenID Connect")
    return f"the {name!r} provider, which refreshes tokens inside the client, is not supported; {instead}"


def _parse_exec(place: _Place, entry: _Exec) -> ExecConfig:
    if not entry.command:
        place.fail("exec.command", "is missing; it names the program that prints the credential")
    if entry.api_version not in EXEC_API_VERSIONS:
        place.fail("exec.apiVersion", f"is {entry.api_version!r}; supported are {' and '.join(EXEC_API_VERSIONS)}")
    mode = entry.interactive_mode
    if not mode and entry.api_version == EXEC_API_VERSIONS[0]:
        place.fail("exec.interactiveMode", "is missing; v1 plugins need one of Never, IfAvailable and Always")
    if mode not in ("", "Never", "IfAvailable", "Always"):
        place.fail("exec.interactiveMode", f"is {mode!r}; it must be one of Never, IfAvailable and Always")
    for index, variable in enumerate(entry.env):
        if not variable.name or "=" in variable.name or "\0" in variable.name + variable.value:
            place.fail(f"exec.env[{index}]", "needs a name without an equals sign, and no NUL in its name or value")
    return ExecConfig(
        api_version=entry.api_version,
        command=str(place.file("exec.command", entry.command)) if "/" in entry.command else entry.command,
        args=tuple(entry.args),
        env=tuple((variable.name, variable.value) for variable in entry.env),
        install_hint=entry.install_hint,
        provide_cluster_info=entry.provide_cluster_info,
        interactive_mode=mode or "IfAvailable",  # type: ignore[arg-type] # checked above
    )


def _parse_impersonation(place: _Place, entry: _User) -> Impersonation | None:
    if not entry.act_as:
        if entry.as_uid or entry.as_groups or entry.as_user_extra:
            place.fail("as", "is missing: groups, uid and extra can be impersonated only together with a user")
        return None
    extra = tuple((key, tuple(values)) for key, values in entry.as_user_extra.items())
    words = [entry.act_as, entry.as_uid, *entry.as_groups, *(word for _, values in extra for word in values)]
    if not all(word.isprintable() for word in words):
        place.fail("as", "and its groups, uid and extra may hold no control characters")
    return Impersonation(entry.act_as, entry.as_uid, tuple(entry.as_groups), extra)

"""Answer `pods/exec`, `pods/attach` and `pods/portforward` with a tunnel between the client and the pod.

The module parses the request's options and runs admission. The pod's node provides the pod's end of the tunnel. The
server refuses a request for a pod without a node (400), or whose node is not connected (503).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from muster.api.core import POD, Pod
from muster.api.core.podoptions import PodAttachOptions, PodExecOptions, PodPortForwardOptions
from muster.api.status import bad_request, unavailable
from muster.cluster.apiserver.answers import Tunnel
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.pods.logs import container_of
from muster.cluster.apiserver.request.call import Call
from muster.cluster.apiserver.request.requestinfo import parse_boolean
from muster.cluster.nodeconnection import CommandOptions, NodeConnection, Opening
from muster.cluster.store import Entry
from muster.runtime.transport import Request

_SPDY_PORTS = "SPDY/3.1+portforward.k8s.io"  # kubernetes KEP-4006: frames of SPDY inside a WebSocket
_PORTS_DIALECTS = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io", "")  # kr8s offers no subprotocol
MAX_PORTS = 100


class PodAccess:
    """The actions for exec, attach and port-forward.

    find: returns the pod of a call; raises `ApiError` (404).
    admit: runs admission for a call and its options as an object; raises `ApiError` if admission refuses.
    nodes: the connected nodes, by name.
    """

    def __init__(
        self,
        find: Callable[[Call], Entry],
        admit: Callable[[Call, Document], Awaitable[None]],
        nodes: Mapping[str, NodeConnection],
    ) -> None:
        self._find = find
        self._admit = admit
        self._nodes = nodes

    @property
    def actions(self) -> Mapping[str, Callable[[Call], Awaitable[Tunnel]]]:
        """The action for each subresource, by name (`pods/exec`)."""
        return {"pods/exec": self._exec, "pods/attach": self._attach, "pods/portforward": self._forward_ports}

    async def _exec(self, call: Call) -> Tunnel:
        pod = self._get_pod(call)
        options = command_options(pod, call.request)
        if not options.command:
            raise bad_request("you must specify at least one command for the container")
        await self._admit(call, _make_options_object(PodExecOptions, "PodExecOptions", options))
        return _make_command_tunnel(options, self._find_node(pod).exec(pod, options))

    async def _attach(self, call: Call) -> Tunnel:
        pod = self._get_pod(call)
        options = command_options(pod, call.request)
        await self._admit(call, _make_options_object(PodAttachOptions, "PodAttachOptions", options))
        return _make_command_tunnel(options, self._find_node(pod).attach(pod, options))

    async def _forward_ports(self, call: Call) -> Tunnel:
        pod = self._get_pod(call)
        ports = _parse_ports(call.request.lists.get("ports", ()))
        await self._admit(call, _make_options_object(PodPortForwardOptions, "PodPortForwardOptions", {"ports": ports}))
        from muster.cluster.apiserver.pods.tunnels import forward  # few clusters see a tunnel

        dial = self._find_node(pod).dial(pod)
        protocols = {_SPDY_PORTS: partial(forward.over_streams, dial)}
        if ports:
            protocols |= {name: partial(forward.over_channels, dial, name, ports) for name in _PORTS_DIALECTS}
        return Tunnel(protocols)

    def _get_pod(self, call: Call) -> Pod:
        return POD.decode(self._find(call).body)

    def _find_node(self, pod: Pod) -> NodeConnection:
        name = pod.spec.node_name
        if not name:
            raise bad_request(f"pod {pod.metadata.name} does not have a host assigned")
        node = self._nodes.get(name)
        if node is None:
            raise unavailable(f'the node "{name}" of pod "{pod.metadata.name}" is not connected')
        return node


def command_options(pod: Pod, request: Request) -> CommandOptions:
    """Return the options of an exec or attach from the query of a request. Raises `ApiError` (400).

    With a terminal, the options have no standard error, because the terminal joins it with the standard output.
    """
    query = request.query
    stdin, stdout, stderr, tty = (parse_boolean(query, name) or False for name in ("stdin", "stdout", "stderr", "tty"))
    if not (stdin or stdout or stderr):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    return CommandOptions(
        container=container_of(pod, query.get("container", "")),
        command=request.lists.get("command", ()),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr and not tty,
        tty=tty,
    )


def _make_options_object(type: type[Any], kind: str, options: Any) -> Document:
    """Return the options of an exec, attach or port-forward, as the object that admission sees.

    type: the type of the object.
    options: a value with attributes or members of the same names.
    """
    members: Document = msgspec.json.decode(msgspec.json.encode(msgspec.convert(options, type, from_attributes=True)))
    return {"kind": kind, "apiVersion": "v1", **members}


def _make_command_tunnel(options: CommandOptions, opening: Opening) -> Tunnel:
    from muster.cluster.apiserver.pods.tunnels import command  # few clusters see a tunnel
    from muster.cluster.apiserver.pods.tunnels.channels import DIALECTS

    channels = options.channels
    return Tunnel({name: partial(command.converse, dialect, channels, opening) for name, dialect in DIALECTS.items()})


def _parse_ports(texts: Sequence[str]) -> list[int]:
    """Return the ports in the query of a port-forward, in order; [] for a client that names them later (SPDY).

    Raises `ApiError` (400).
    """
    words = [word for text in texts for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and 0 < int(word[:6]) < 65536 for word in words):
        raise bad_request(f"ports are numbers from 1 to 65535: {','.join(texts)[:100]}")
    if len(words) > MAX_PORTS:
        raise bad_request(f"no more than {MAX_PORTS} ports can be forwarded in one WebSocket")
    return [int(word) for word in words]

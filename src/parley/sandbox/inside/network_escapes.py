"""Attempts to reach the host's network and sockets."""

import _socket

from parley.sandbox.inside.scene import GATEWAY, Closing, Scene, ask_gateway, connected, read

# the kernel's numbers of address families and protocols, which _socket does not name on every build
_VSOCK, _PACKET, _ALG, _MPTCP, _ICMP = 40, 17, 38, 262, 1


def abstract_socket(scene: Scene) -> str:
    """Connect to an abstract socket of the host."""
    return connected(_socket.AF_UNIX, b"\0parley-canary-" + scene.folder.encode("utf-8", "surrogateescape"))


def path_socket(scene: Scene) -> str:
    """Connect to a socket of the host by its path."""
    return connected(_socket.AF_UNIX, f"{scene.folder}/socket")


def tcp(scene: Scene) -> str:
    """Connect to a port of the host."""
    return connected(_socket.AF_INET, ("127.0.0.1", scene.tcp))


def udp(scene: Scene) -> str:
    """Send a datagram to the host; outside it is looked for."""
    with Closing(_socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)) as sender:
        sender.sendto(scene.token.encode(), ("127.0.0.1", scene.udp))
    return ""


def interfaces(scene: Scene) -> str:
    """Look for a network interface other than the loopback."""
    lines = read("/proc/net/dev").decode().splitlines()[2:]
    others = [line.split(":")[0].strip() for line in lines if line.split(":")[0].strip() != "lo"]
    return f"{others[0]} is there" if others else ""


def socket_families(scene: Scene) -> str:
    """Open sockets of other kinds: vsock, packets, raw, the kernel's ciphers, multipath TCP."""
    for family, kind, protocol in (
        (_VSOCK, _socket.SOCK_STREAM, 0),
        (_PACKET, _socket.SOCK_DGRAM, 0),
        (_ALG, _socket.SOCK_SEQPACKET, 0),
        (_socket.AF_INET, _socket.SOCK_RAW, _ICMP),
        (_socket.AF_INET, _socket.SOCK_STREAM, _MPTCP),
    ):
        try:
            _socket.socket(family, kind, protocol).close()
        except OSError:
            continue
        return f"a socket of family {family}, protocol {protocol}"
    return ""


def unlisted_host(scene: Scene) -> str:
    """Ask the gateway for a host that is not on its list."""
    if not scene.route:
        return connected(_socket.AF_INET, GATEWAY)
    answer = ask_gateway(f"CONNECT 127.0.0.1:{scene.tcp} HTTP/1.1\r\nHost: gateway\r\n\r\n")
    return "" if answer.startswith("HTTP/1.1 403 ") else f"it answered {answer[:40]!r}"

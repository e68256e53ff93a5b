"""Ways out. None may connect, and the host's listeners count connections.

TARGET: tcp, udp: [address, port] pairs of listeners on the host; tcp6; abstract, abstract_dgram: names of
abstract Unix sockets; path, path_dgram: Unix sockets in the file system.
"""
import ctypes
import errno
import os
import socket
import struct
import sys

from attack import BARE, TARGET, add, attack, libc, main, syscall

socket.setdefaulttimeout(60 if BARE else 2)


def _tcp(address, port, family=socket.AF_INET, protocol=0):
    def f():
        with socket.socket(family, socket.SOCK_STREAM, protocol) as s:
            s.connect((address, port))
            return "connected to %s port %d" % (address, port)
    return f


def _udp(address, port):
    def f():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect((address, port))  # so that a refusal is reported
            s.send(b"canary")
            return "answer %r" % s.recv(64)
    return f


for i, (address, port) in enumerate(TARGET["tcp"]):
    add("tcp_%d" % i, _tcp(address, port))
    add("mptcp_%d" % i, _tcp(address, port, protocol=262))
for i, (address, port) in enumerate(TARGET["tcp6"]):
    add("tcp6_%d" % i, _tcp(address, port, socket.AF_INET6))
for i, (address, port) in enumerate(TARGET["udp"]):
    add("udp_%d" % i, _udp(address, port))


@attack
def tcp_fast_open():
    """Data in the first packet, without connect."""
    address, port = TARGET["tcp"][0]
    with socket.socket() as s:
        s.settimeout(None)  # otherwise the error is EINPROGRESS
        s.sendto(b"canary", 0x20000000, (address, port))
        return "sent by fast open"


def _outside(address, port, kind=socket.SOCK_STREAM):
    def f():
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind) as s:
            s.settimeout(2)
            s.connect((address, port))
            if kind == socket.SOCK_DGRAM:
                s.send(b"\x12\x34\1\0\0\1\0\0\0\0\0\0\7example\3com\0\0\1\0\1")
            return "there is a route to %s" % address
    return f


# Addresses for which only a network can have a route. A UDP "connect" only looks up a route.
for name, address in (("metadata", "169.254.169.254"), ("public_dns", "8.8.8.8"), ("private", "10.0.0.1"), ("docker", "172.17.0.1"),
                      ("metadata6", "fd00:ec2::254"), ("public6", "2001:4860:4860::8888"), ("multicast", "224.0.0.251"),
                      ("broadcast", "255.255.255.255")):
    add("route_" + name, _outside(address, 53, socket.SOCK_DGRAM), bare=False)
add("connect_metadata", _outside("169.254.169.254", 80), bare=False)


@attack(bare=False)
def dns():
    return str(socket.getaddrinfo("example.com", 80))


@attack(bare=False)
def dns_by_hand():
    """To the servers in /etc/resolv.conf, and the usual stubs."""
    servers = ["127.0.0.53", "127.0.0.11", "10.0.2.3", "192.168.65.7"]
    try:
        with open("/etc/resolv.conf") as f:
            servers += [l.split()[1] for l in f if l.startswith("nameserver") and len(l.split()) > 1]
    except OSError:
        pass
    query = b"\x12\x34\1\0\0\1\0\0\0\0\0\0\7example\3com\0\0\1\0\1"
    for server in servers:
        try:
            with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.connect((server, 53))
                s.send(query)
                return "%s answered %r" % (server, s.recv(512))
        except OSError:
            continue


@attack(bare=False)
def interfaces():
    names = {name for _, name in socket.if_nameindex()} - {"lo"}
    # Templates that the kernel makes in every network namespace; they are down and unconnected.
    names -= {"tunl0", "sit0", "ip6tnl0", "ip6_vti0", "ip_vti0", "gre0", "gretap0", "erspan0", "ip6gre0", "teql0"}
    return "interfaces %s" % sorted(names) if names else None


# --- Unix sockets of the host

def _unix(address, kind):
    def f():
        with socket.socket(socket.AF_UNIX, kind) as s:
            s.connect(address)
            if kind == socket.SOCK_DGRAM:
                s.send(b"canary")
            return "connected to %r" % address
    return f


add("abstract_stream", _unix(b"\0" + TARGET["abstract"].encode(), socket.SOCK_STREAM))
add("abstract_dgram", _unix(b"\0" + TARGET["abstract_dgram"].encode(), socket.SOCK_DGRAM))
add("path_stream", _unix(TARGET["path"], socket.SOCK_STREAM))
add("path_dgram", _unix(TARGET["path_dgram"], socket.SOCK_DGRAM))
add("path_through_init", _unix("/proc/1/root" + TARGET["path"], socket.SOCK_STREAM), root=True)


@attack(bare=False)
def sockets_of_services():
    """Docker, containerd, podman, systemd, D-Bus, X11, Wayland, ssh and GPG agents."""
    found = []
    for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock",
                 "/run/systemd/private", "/run/systemd/notify", "/run/systemd/journal/socket", "/run/dbus/system_bus_socket",
                 "/run/user/0/bus", "/run/user/1000/bus", "/tmp/.X11-unix/X0", "/dev/log", "/run/snapd.socket", "/run/crio/crio.sock",
                 "/var/run/nscd/socket", "/run/user/%d/systemd/private" % os.getuid()):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            try:
                with socket.socket(socket.AF_UNIX, kind) as s:
                    s.connect(path)
                    found.append(path)
            except OSError:
                pass
    return str(found) if found else None


@attack
def abstract_names_of_the_host():
    with open("/proc/net/unix") as f:
        names = [l.split()[-1] for l in f if "@" in l]
    return "sees %s" % names[:3] if any(TARGET["abstract"] in n for n in names) else None


@attack(bare=False)
def unix_sockets_in_sight():
    with open("/proc/net/unix") as f:
        names = [l.split()[-1] for l in f.readlines()[1:] if len(l.split()) > 7]
    return "sees %s" % names[:5] if names else None


# --- kinds of sockets

FAMILIES = {"AX25": 3, "IPX": 4, "APPLETALK": 5, "X25": 9, "KEY": 15, "PACKET": 17, "RDS": 21, "LLC": 26, "IB": 27, "CAN": 29,
            "TIPC": 30, "BLUETOOTH": 31, "RXRPC": 33, "PHONET": 35, "IEEE802154": 36, "CAIF": 37, "ALG": 38, "NFC": 39,
            "VSOCK": 40, "KCM": 41, "QIPCRTR": 42, "SMC": 43, "XDP": 44, "MCTP": 45}


def _family(number):
    def f():
        last = None
        for kind in (1, 2, 3, 5):
            try:
                return "socket(%d, %d) gave descriptor %d" % (number, kind, syscall("socket", number, kind, 0))
            except OSError as e:
                last = e
        raise last
    return f


for name, number in FAMILIES.items():
    add("family_" + name, _family(number), root=name in ("PACKET", "KEY", "LLC", "XDP"))


@attack
def alg_hash():
    """The kernel's crypto through a socket (CVE-2016-8646 and others)."""
    with socket.socket(38, socket.SOCK_SEQPACKET, 0) as s:
        s.bind(("hash", "sha256"))
        return "bound AF_ALG"


def _vsock():
    with socket.socket(40, socket.SOCK_STREAM) as s:
        s.connect((2, 1234))
    return "connected"


@attack
def vsock_host():
    try:
        return _vsock()
    except OSError as e:
        if e.errno in (errno.ECONNRESET, errno.ECONNREFUSED, errno.ETIMEDOUT, errno.ENETUNREACH, errno.EHOSTUNREACH, None):
            return "AF_VSOCK reached the driver: %s" % e
        raise


add("family_high_bits", lambda: "socket %d" % syscall("socket", 0x1_0000_0000 | 40, 1, 0))
add("raw_icmp", lambda: "raw %s" % socket.socket(socket.AF_INET, socket.SOCK_RAW, 1), root=True)
add("raw_tcp", lambda: "raw %s" % socket.socket(socket.AF_INET, socket.SOCK_RAW, 6), root=True)
add("raw6", lambda: "raw %s" % socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58), root=True)
add("raw_high_bits", lambda: "raw %d" % syscall("socket", 2, 0x1_0000_0003, 1), root=True)
add("packet", lambda: "packet %s" % socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300), root=True)
add("packet_old", lambda: "packet %d" % syscall("socket", 2, 10, 0x0300), root=True)  # SOCK_PACKET
add("sctp", lambda: "sctp %s" % socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132))
add("dccp", lambda: "dccp %d" % syscall("socket", 2, 6, 33))
add("udplite", lambda: "udplite %s" % socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136))
add("mptcp_high_bits", lambda: "mptcp %d" % syscall("socket", 2, 1, 0x1_0000_0106))

NETLINK = {"USERSOCK": 2, "SOCK_DIAG": 4, "NFLOG": 5, "XFRM": 6, "SELINUX": 7, "ISCSI": 8, "AUDIT": 9, "FIB_LOOKUP": 10,
           "CONNECTOR": 11, "NETFILTER": 12, "DNRTMSG": 14, "KOBJECT_UEVENT": 15, "GENERIC": 16, "SCSITRANSPORT": 18,
           "RDMA": 20, "CRYPTO": 21, "SMC": 22}
for name, number in NETLINK.items():
    add("netlink_" + name, lambda number=number: "netlink %s" % socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, number))


@attack(root=True, bare=False)
def bring_up_an_interface():
    """Even if netlink routes may be queried, nothing may be configured."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        # RTM_NEWLINK, request and acknowledge: a dummy interface.
        kind = struct.pack("HH", 4 + 6, 1) + b"dummy\0" + b"\0\0"
        info = struct.pack("HH", 4 + len(kind), 18) + kind
        body = struct.pack("BxHiII", 0, 0, 0, 0, 0) + info
        s.send(struct.pack("IHHII", 16 + len(body), 16, 0x605, 1, 0) + body)
        answer = s.recv(4096)
        code = struct.unpack_from("i", answer, 16)[0]
        if code:
            raise OSError(-code, os.strerror(-code))
        return "made an interface"


@attack(bare=False)
def low_port():
    with socket.socket() as s:
        s.bind(("0.0.0.0", 80))
    # Harmless in a network namespace of its own, where a web server may need it: not an attack.
    return None


@attack
def descriptors_of_the_host_by_unix_socket():
    """A listener that sends an open descriptor."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(TARGET["path"])
        _, fds, _, _ = socket.recv_fds(s, 16, 1)
        return "got descriptors %s" % fds if fds else "connected"


if __name__ == "__main__":
    main()

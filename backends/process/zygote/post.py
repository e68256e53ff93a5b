# post: messages that carry descriptors, over SOCK_SEQPACKET sockets.

# A struct msghdr, its struct iovec, room for descriptors, and the message itself.
message = Memory(512)
IOV, CONTROL, BODY = 56, 72, 256


def address(size, rights):
    """Makes the header for a message of a size, with room for rights bytes of descriptors."""
    at = message.at
    message.words[0:9] = memoryview(
        b"".join(n.to_bytes(8, "little") for n in (0, 0, at + IOV, 1, at + CONTROL if rights else 0, rights, 0, at + BODY, size))
    ).cast("q")


def take(sock):
    """Receives a message of at most 64 bytes. It returns its size, 0 at the end, and its descriptors."""
    address(64, BODY - CONTROL)
    size = call(SYS_RECVMSG, sock, message.at, MSG_CMSG_CLOEXEC, 0, 0, 0)
    if size <= 0 or message.words[5] < 20:
        return max(size, 0), []
    count = (message.words[CONTROL // 8] - 16) // 4
    first = (CONTROL + 16) // 4
    return size, message.halves[first : first + count].tolist()


def tell(sock, size, fd=-1):
    """Sends the first size bytes of message's body, and a descriptor."""
    address(size, 24 if fd >= 0 else 0)
    message.words[CONTROL // 8] = 20
    message.halves[CONTROL // 4 + 2 : CONTROL // 4 + 5] = memoryview(
        b"".join(n.to_bytes(4, "little") for n in (SOL_SOCKET, SCM_RIGHTS, max(fd, 0)))
    ).cast("i")
    return call(SYS_SENDMSG, sock, message.at, MSG_NOSIGNAL, 0, 0, 0) == size


def report(control, kind, index=0, failed=0, pid=0, wait=0, alone=0, cpu=0, rss=0):
    """Sends a launch.Message."""
    body = BODY // 4
    for i, n in enumerate((kind, index, failed, pid, wait, alone)):
        message.halves[body + i] = n
    message.words[BODY // 8 + 3] = cpu
    message.words[BODY // 8 + 4] = rss
    return tell(control, MESSAGE_SIZE)

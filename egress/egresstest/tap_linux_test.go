package egresstest

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tap reports each packet on a network device that starts a connection or exchange, however a program has sent it.
func (n namespace) tap(t *testing.T, device string, report func(to string)) {
	t.Helper()
	const everything = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL&0xff<<8
	fd := -1
	err := n.runInside(func() error {
		i, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20)
		wait := unix.NsecToTimeval(int64(50 * time.Millisecond))
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait)
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: everything, Ifindex: i.Index})
	})
	if err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 64<<10)
		for {
			k, from, err := unix.Recvfrom(fd, buf, 0)
			select {
			case <-stop:
				return
			default:
			}
			if err != nil {
				continue // a read timeout
			}
			at, ok := from.(*unix.SockaddrLinklayer)
			if !ok || at.Pkttype == unix.PACKET_OUTGOING {
				continue
			}
			if to := starts(buf[:k]); to != "" {
				report(to)
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done; os.NewFile(uintptr(fd), device).Close() })
}

// starts returns the destination of an IP packet, "tcp 192.0.2.1:80" or "udp ...", if it is the first of an
// exchange: of a TCP connection, only the SYN. It is "" for the kernel's own neighbour discovery.
func starts(p []byte) string {
	switch {
	case len(p) >= 20 && p[0]>>4 == 4:
		to, _ := netip.AddrFromSlice(p[16:20])
		if head := int(p[0]&15) * 4; head <= len(p) {
			return transport(p[9], to, p[head:])
		}
	case len(p) >= 40 && p[0]>>4 == 6:
		to, _ := netip.AddrFromSlice(p[24:40])
		next, rest := p[6], p[40:]
		if next == 0 && len(rest) >= 8 && int(rest[1]+1)*8 <= len(rest) { // hop by hop options, as in multicast reports
			next, rest = rest[0], rest[int(rest[1]+1)*8:]
		}
		const icmp6, firstOfNeighbours, lastOfNeighbours = 58, 130, 143
		if next == icmp6 && len(rest) > 0 && rest[0] >= firstOfNeighbours && rest[0] <= lastOfNeighbours {
			return ""
		}
		return transport(next, to, rest)
	}
	return ""
}

func transport(protocol byte, to netip.Addr, p []byte) string {
	const syn, ack = 0x02, 0x10
	switch {
	case protocol == unix.IPPROTO_TCP && len(p) >= 20:
		if p[13]&(syn|ack) != syn {
			return ""
		}
		return fmt.Sprint("tcp ", netip.AddrPortFrom(to, binary.BigEndian.Uint16(p[2:])))
	case protocol == unix.IPPROTO_UDP && len(p) >= 8:
		return fmt.Sprint("udp ", netip.AddrPortFrom(to, binary.BigEndian.Uint16(p[2:])))
	}
	return fmt.Sprintf("protocol %d %s", protocol, to)
}

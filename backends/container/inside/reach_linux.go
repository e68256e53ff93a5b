package inside

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A network policy is a request to the cluster, which many clusters accept and ignore. So the init tries to connect
// like a program: an address that answers, even with a refusal, is reachable.

// probeTarget is an address that must not answer.
type probeTarget struct{ name, network, address string }

func (t probeTarget) String() string { return t.name + " " + t.address }

// Variables of PID 1's environment, set by the server and by every kubelet.
const (
	nodeVariable = "SANDBOXMCP_NODE" // the node's address
	apiHost      = "KUBERNETES_SERVICE_HOST"
	apiPort      = "KUBERNETES_SERVICE_PORT"
)

// probeTargets returns the server's targets, each as "name=network/address", and those known in the pod.
func probeTargets(args []string) (all []probeTarget, err error) {
	for _, arg := range args {
		name, rest, ok := strings.Cut(arg, "=")
		network, address, ok2 := strings.Cut(rest, "/")
		if !ok || !ok2 || network != "tcp" && network != "udp" {
			return nil, fmt.Errorf("unknown argument %q", arg)
		}
		all = append(all, probeTarget{name, network, address})
	}
	add := func(name, host, port string) {
		if host != "" {
			all = append(all, probeTarget{name, "tcp", net.JoinHostPort(host, port)})
		}
	}
	add("API server", os.Getenv(apiHost), cmp.Or(os.Getenv(apiPort), "443"))
	add("kubelet", os.Getenv(nodeVariable), "10250")
	add("gateway", defaultGateway(readFile("/proc/net/route")), "10250")
	add("gateway", defaultGateway6(readFile("/proc/net/ipv6_route")), "10250")
	add("metadata", "169.254.169.254", "80")
	add("metadata", "fd00:ec2::254", "80")
	// A policy may only deny private networks. These addresses answer from everywhere.
	add("internet", "1.1.1.1", "443")
	add("internet", "8.8.8.8", "53")
	add("internet", "2606:4700:4700::1111", "443")
	return all, nil
}

// defaultGateway finds the default route in the text of /proc/net/route.
func defaultGateway(routes string) string {
	for line := range strings.Lines(routes) {
		f := strings.Fields(line)
		var gateway uint32
		if len(f) < 3 || f[1] != "00000000" || f[2] == "00000000" {
			continue
		}
		if _, err := fmt.Sscanf(f[2], "%X", &gateway); err != nil {
			continue
		}
		return net.IP(binary.NativeEndian.AppendUint32(nil, gateway)).String()
	}
	return ""
}

// defaultGateway6 finds the default route in the text of /proc/net/ipv6_route: destination, its length, source, its
// length, next hop, ..., interface. The gateway is usually a link-local address, which needs the interface's name.
func defaultGateway6(routes string) string {
	for line := range strings.Lines(routes) {
		f := strings.Fields(line)
		if len(f) < 10 || f[1] != "00" {
			continue
		}
		hop, err := hex.DecodeString(f[4])
		ip := net.IP(hop)
		switch {
		case err != nil || len(ip) != net.IPv6len || ip.IsUnspecified():
			continue
		case ip.IsLinkLocalUnicast():
			return ip.String() + "%" + f[len(f)-1]
		}
		return ip.String()
	}
	return ""
}

const (
	// answerTimeout bounds the wait for an answer. Targets are in the same cluster.
	answerTimeout = 700 * time.Millisecond
	// settlePause is the time between two rounds, while the policy may not be enforced yet for this pod.
	settlePause = 200 * time.Millisecond
)

// probe tries to reach all targets until none answers twice in a row, for at most settle. Once is not enough: a new
// pod's network may not be connected yet, and a packet may get lost.
func probe(targets []probeTarget, settle time.Duration) (probed, answered []string) {
	for _, t := range targets {
		probed = append(probed, t.String())
	}
	silent := 0
	for end := time.Now().Add(settle); ; time.Sleep(settlePause) {
		answered = nil
		reached := make([]bool, len(targets))
		var all sync.WaitGroup
		for i, t := range targets {
			all.Go(func() { reached[i] = t.answers() })
		}
		all.Wait()
		for i, t := range targets {
			if reached[i] {
				answered = append(answered, t.String())
			}
		}
		if silent++; len(answered) > 0 {
			silent = 0
		}
		if silent == 2 || silent == 0 && time.Now().After(end) {
			return probed, answered
		}
	}
}

// dnsQuery asks for the root name servers, which every resolver answers or refuses.
var dnsQuery = []byte("\x51\x17\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01")

// answers reports whether any answer comes from a target. An error of our own kernel, such as a missing route, is
// none.
func (t probeTarget) answers() bool {
	conn, err := net.DialTimeout(t.network, t.address, answerTimeout)
	if err == nil {
		defer conn.Close()
		if t.network == "tcp" {
			return true
		}
		_ = conn.SetDeadline(time.Now().Add(answerTimeout))
		if _, err = conn.Write(dnsQuery); err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
	}
	return err == nil || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ECONNRESET)
}

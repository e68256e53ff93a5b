package inside

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestProbe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	resolver, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer resolver.Close()
	go func() {
		b := make([]byte, 512)
		for {
			n, from, err := resolver.ReadFrom(b)
			if err != nil {
				return
			}
			resolver.WriteTo(b[:n], from)
		}
	}()
	open := probeTarget{"open", "tcp", l.Addr().String()}
	refusing := probeTarget{"refusing", "tcp", closed.Addr().String()}
	dns := probeTarget{"dns", "udp", resolver.LocalAddr().String()}
	dead := probeTarget{"silent", "udp", silent.LocalAddr().String()}
	noPort := probeTarget{"no port", "udp", closed.Addr().String()}
	probed, answered := probe([]probeTarget{open, refusing, dns, dead, noPort}, 0)
	if want := []string{open.String(), refusing.String(), dns.String(), noPort.String()}; len(probed) != 5 || !slices.Equal(answered, want) {
		t.Errorf("of %q answered %q, want %q", probed, answered, want)
	}
	if _, answered := probe([]probeTarget{dead}, 0); len(answered) > 0 {
		t.Errorf("answered: %q", answered)
	}
}

// TestProbeSettles: a policy is enforced some time after the pod has started.
func TestProbeSettles(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // answers once
		b := make([]byte, 512)
		if n, from, err := l.ReadFrom(b); err == nil {
			l.WriteTo(b[:n], from)
		}
	}()
	if _, answered := probe([]probeTarget{{"dns", "udp", l.LocalAddr().String()}}, time.Minute); len(answered) > 0 {
		t.Errorf("answered: %q", answered)
	}
}

// TestProbeLateNetwork: a pod's network may come after the pod, so a first try without an answer proves nothing.
func TestProbeLateNetwork(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // answers all but the first
		b := make([]byte, 512)
		for first := true; ; first = false {
			n, from, err := l.ReadFrom(b)
			if err != nil {
				return
			}
			if !first {
				l.WriteTo(b[:n], from)
			}
		}
	}()
	if _, answered := probe([]probeTarget{{"dns", "udp", l.LocalAddr().String()}}, 0); len(answered) != 1 {
		t.Error("the network is taken for closed that only opened late")
	}
}

func TestProbeTargets(t *testing.T) {
	t.Setenv(nodeVariable, "10.1.2.3")
	t.Setenv(apiHost, "10.96.0.1")
	t.Setenv(apiPort, "")
	all, err := probeTargets([]string{"neighbour=tcp/10.1.1.1:80", "cluster DNS=udp/10.96.0.10:53"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range all {
		names = append(names, a.String())
	}
	text := strings.Join(names, ", ")
	for _, want := range []string{"neighbour 10.1.1.1:80", "cluster DNS 10.96.0.10:53", "API server 10.96.0.1:443", "kubelet 10.1.2.3:10250",
		"metadata 169.254.169.254:80",
		"metadata [fd00:ec2::254]:80", "internet 1.1.1.1:443", "internet 8.8.8.8:53", "internet [2606:4700:4700::1111]:443"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	for _, bad := range []string{"", "a", "a=b", "a=icmp/1.1.1.1"} {
		if _, err := probeTargets([]string{bad}); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	if got := defaultGateway("Iface\tDestination\tGateway\neth0\t00000000\t0140580A\t0003\n"); got != "10.88.64.1" {
		t.Errorf("got gateway %q", got)
	}
}

func TestDefaultGateway6(t *testing.T) {
	const none, metric = "00000000000000000000000000000000", " 00000400 00000001 00000000 00000003 "
	for _, tt := range []struct{ routes, want string }{
		{"", ""},
		{"fe800000000000000000000000000000 40 " + none + " 00 " + none + metric + "eth0\n", ""},
		{none + " 00 " + none + " 00 " + none + " ffffffff 00000001 00000000 00200200 lo\n", ""}, // unreachable
		{none + " 00 " + none + " 00 fd000010000000000000000000000001" + metric + "eth0\n", "fd00:10::1"},
		{none + " 00 " + none + " 00 fe80000000000000000000000000000a" + metric + "eth0\n", "fe80::a%eth0"},
		{none + " 00 short\n", ""},
	} {
		if got := defaultGateway6(tt.routes); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.routes, got, tt.want)
		}
	}
}

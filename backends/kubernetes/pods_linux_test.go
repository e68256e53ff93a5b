package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"k8s.io/client-go/rest"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// reach tries from inside to reach the API server, the kubelet, cloud metadata, names, the neighbour and the
// account's token, and prints its successes.
const reach = `
import os, socket, sys
for name, kind, host, port in [a.split(",") for a in sys.argv[1:]]:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            s = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
            s.settimeout(2)
            s.connect(("::ffff:" + host if family == socket.AF_INET6 else host, int(port)))
            if kind == "udp":
                s.send(b"\x51\x17\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01"); s.recv(1)
            print("reached", name)
        except ConnectionRefusedError:
            print("refused by", name)
        except OSError:
            pass
for path in ("/var/run/secrets", "/run/secrets", "/run/sandboxmcp/attach", "/.sandboxmcp/conn/socket"):
    if os.path.exists(path):
        print("there is", path)
for name in os.environ:
    if "KUBERNETES" in name or "SANDBOXMCP" in name:
        print("variable", name)
for path in ("/.sandboxmcp/init", "/dev/termination-log", "/.sandboxmcp-end", "/etc/hosts", "/etc/resolv.conf"):
    try:
        open(path, "r+b"); print("written to:", path)
    except OSError:
        pass
print("done")
`

// TestReach attacks a pod's surroundings.
func TestReach(t *testing.T) {
	c := testConfig(t)
	b := newBackend(t, c, 0)
	closeLater(t, b)
	neighbour := start(t, b, backends.Spec{Language: "shell", Keep: true})
	s := start(t, b, backends.Spec{Language: "python", Require: PromisedLayers()})
	var targets []string
	for _, p := range podsOf(t, c) {
		if p.Status.PodIP != "" {
			targets = append(targets, "neighbour,tcp,"+p.Status.PodIP+",10250")
		}
	}
	if len(targets) == 0 {
		t.Fatal("no pod has an address")
	}
	api := apiOf(t, c)
	host, port := api.base.Hostname(), api.base.Port()
	targets = append(targets, "API server,tcp,"+host+","+port, "kubelet,tcp,"+host+",10250", "metadata,tcp,169.254.169.254,80",
		"DNS,udp,10.96.64.10,53")
	if o := execute(t, s, append([]string{"python", "-c", reach}, targets...)...); o.stdout != "done\n" {
		t.Errorf("got %q, %q", o.stdout, o.stderr)
	}
	_ = neighbour
}

// TestPolicyNotEnforced has a cluster that accepts a network policy without enforcing it: a run that needs the
// layer is refused with that reason; another has no sockets.
func TestPolicyNotEnforced(t *testing.T) {
	c := testConfig(t)
	b := newBackend(t, c, 0)
	closeLater(t, b)
	s := start(t, b, backends.Spec{Language: "shell"})
	o := execute(t, s, "bash", "-c", "true")
	i := slices.IndexFunc(o.Contained.Layers, func(l backends.Layer) bool { return l.Name == backends.LayerNet })
	if i < 0 || !o.Contained.Layers[i].InForce {
		t.Fatalf("got %+v", o.Contained.Layers)
	}
	if !strings.Contains(o.Contained.Layers[i].Detail, "no internet sockets") {
		t.Skipf("this cluster enforces network policies: %s", o.Contained.Layers[i].Detail)
	}
	_, err := b.Start(t.Context(), backends.Spec{ID: ulid.Make().String(), Language: "shell", Gateway: []int{443},
		Require: []string{backends.LayerNet}})
	refused, is := errors.AsType[*backends.Refusal](err)
	if !is || refused.Layer != backends.LayerNet || !strings.Contains(refused.Reason, "answered") {
		t.Errorf("got %v", err)
	}
}

// TestReceipt checks that a receipt names the pod, the node and the image.
func TestReceipt(t *testing.T) {
	c := testConfig(t)
	b := newBackend(t, c, 0)
	closeLater(t, b)
	s := start(t, b, backends.Spec{Language: "shell"})
	o := execute(t, s, "bash", "-c", "true")
	p := podsOf(t, c)[0]
	for _, l := range o.Contained.Layers {
		if l.Name == backends.LayerMount {
			for _, want := range []string{programImage + "@sha256:", c.Namespace + "/" + p.Meta.Name, "on node " + p.Spec.NodeName} {
				if !strings.Contains(l.Detail, want) {
					t.Errorf("%q is not in %q", want, l.Detail)
				}
			}
			return
		}
	}
	t.Error("there is no layer mount")
}

// TestDeadServer has a server end without closing: another removes its pods, and none of a live server's.
func TestDeadServer(t *testing.T) {
	c := testConfig(t)
	c.Lease = 3 * time.Second
	dead, live := newBackend(t, c, 0), newBackend(t, c, 0)
	closeLater(t, live)
	lasting := start(t, live, backends.Spec{Language: "shell", Keep: true})
	if _, err := dead.Start(t.Context(), backends.Spec{ID: ulid.Make().String(), Language: "shell", Keep: true}); err != nil {
		t.Fatal(err)
	}
	engine := dead.engine
	name := engine.lease.name
	engine.lease.cancel() // no renewal, no sweep, and no removal
	hosttest.Until(t, "the dead server's pods and lease are gone", func() bool {
		for _, p := range podsOf(t, c) {
			if p.Meta.Labels[labelLease] == name {
				return false
			}
		}
		return isStatus(engine.get(context.Background(), engine.pathOf(leaseGroup, "leases", name), nil, nil), http.StatusNotFound)
	})
	if o := execute(t, lasting, "bash", "-c", "echo alive"); o.stdout != "alive\n" {
		t.Errorf("the live server's sandbox says %q", o.stdout)
	}
	if err := dead.Close(); err != nil {
		t.Errorf("close the dead one: %v", err)
	}
}

// TestLeaseLost removes a live server's lease, and with it its pods: the server continues with another lease.
func TestLeaseLost(t *testing.T) {
	c := testConfig(t)
	c.Lease = 3 * time.Second
	b := newBackend(t, c, 0)
	closeLater(t, b)
	start(t, b, backends.Spec{Language: "shell"})
	l := b.engine.lease
	before := l.owner().UID
	if err := b.engine.call(t.Context(), http.MethodDelete, b.engine.pathOf(leaseGroup, "leases", l.name), nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	hosttest.Until(t, "the server has a lease again", func() bool { return l.owner().UID != before })
	s := start(t, b, backends.Spec{Language: "shell"})
	if o := execute(t, s, "bash", "-c", "echo alive"); o.stdout != "alive\n" {
		t.Errorf("got %q", o.stdout)
	}
}

// TestTwoServers has two servers with pools lease sandboxes at the same time: no pod serves two.
func TestTwoServers(t *testing.T) {
	c := testConfig(t)
	var mu sync.Mutex
	served := map[string]int{}
	var all sync.WaitGroup
	for range 2 {
		b := newBackend(t, c, 2)
		closeLater(t, b)
		for range 2 {
			all.Go(func() {
				for range hosttest.Rounds(2, 25) {
					s, err := b.Start(t.Context(), backends.Spec{ID: ulid.Make().String(), Language: "shell",
						Program: &backends.Command{Args: []string{"bash"}}})
					if err != nil {
						t.Error(err)
						return
					}
					r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", "[ ! -e left ] && echo >left"}}, backends.Streams{})
					if err != nil || r.Ended != backends.EndedOK {
						t.Errorf("ended %s, %v: the sandbox was used before", r.Ended, err)
					}
					for _, l := range r.Contained.Layers {
						if l.Name == backends.LayerMount {
							mu.Lock()
							served[l.Detail]++
							mu.Unlock()
						}
					}
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	for pod, n := range served {
		if n != 1 {
			t.Errorf("%s served %d", pod, n)
		}
	}
	if want := 4 * hosttest.Rounds(2, 25); len(served) != want {
		t.Errorf("%d pods served, want %d", len(served), want)
	}
}

// runAlone runs a program that checks whether it is the first in its sandbox, and returns where it ran.
func runAlone(t testing.TB, s backends.Sandbox) (place string, warm bool) {
	t.Helper()
	o := execute(t, s, "bash", "-c", "[ ! -e left ] && echo >left && echo alone")
	if o.stdout != "alone\n" {
		t.Errorf("got %q, %q, ended %s", o.stdout, o.stderr, o.Ended)
	}
	for _, l := range o.Contained.Layers {
		if l.Name == backends.LayerMount {
			place = l.Detail
		}
	}
	return place, o.Warm
}

// TestTakeFromOther has a server claim another server's idle pod: it runs there once, and the other server makes a
// new one.
func TestTakeFromOther(t *testing.T) {
	c := testConfig(t)
	maker, taker := newBackend(t, c, 1), newBackend(t, c, 1)
	closeLater(t, maker)
	closeLater(t, taker)
	spec := backends.Spec{Language: "shell", Program: &backends.Command{Args: []string{"bash"}}}
	where := func(b testBackend) (pod string, warm bool) {
		t.Helper()
		spec.ID = ulid.Make().String()
		s, err := b.Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return runAlone(t, s)
	}
	idle := func() (name string) {
		hosttest.Until(t, "the first server has an idle pod", func() bool {
			pools := maker.Pools()
			return len(pools) > 0 && pools[0].Ready > 0
		})
		for _, p := range podsOf(t, c) {
			if p.Meta.Labels[labelIdle] != "" && p.Meta.Labels[labelLease] == maker.engine.lease.name {
				name = p.Meta.Name
			}
		}
		return name
	}
	where(maker) // cold
	offered := idle()
	pod, warm := where(taker)
	if !warm || offered == "" || !strings.Contains(pod, offered) {
		t.Errorf("warm %v, in %s, want in %s", warm, pod, offered)
	}
	again := idle()
	if again == offered {
		t.Error("a pod that was taken is offered again")
	}
	if pod, warm := where(maker); !warm || !strings.Contains(pod, again) {
		t.Errorf("warm %v, in %s, want in %s", warm, pod, again)
	}
}

// TestOneAttach has two servers connect to one pod: one gets the init, the other an error.
func TestOneAttach(t *testing.T) {
	c := testConfig(t)
	b := newBackend(t, c, 0)
	closeLater(t, b)
	s := start(t, b, backends.Spec{Language: "shell", Keep: true})
	id := podsOf(t, c)[0].Meta.Name
	if other, err := apiOf(t, c).attach(t.Context(), id, nil); err == nil {
		ended := make(chan int)
		go func() {
			n, _ := other.Read(make([]byte, 1))
			ended <- n
		}()
		if o := execute(t, s, "bash", "-c", "echo alive"); o.stdout != "alive\n" {
			t.Errorf("got %q", o.stdout)
		}
		other.Close()
		if n := <-ended; n > 0 {
			t.Error("a second server reads from the init")
		}
	}
	if o := execute(t, s, "bash", "-c", "echo alive"); o.stdout != "alive\n" {
		t.Errorf("got %q", o.stdout)
	}
}

// startProxy starts a proxy in front of the cluster's API server and returns a configuration that uses it.
func startProxy(t *testing.T, c Config, handle func(http.Handler, http.ResponseWriter, *http.Request)) (through Config, cut func()) {
	t.Helper()
	api := apiOf(t, c)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: api.base.Scheme, Host: api.base.Host})
	old := rest.CopyConfig(api.rest)
	old.NextProtos = []string{"http/1.1"} // Go can't upgrade a stream of HTTP/2
	transport, err := rest.TransportFor(old)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Transport = transport
	proxy.ErrorHandler = func(w http.ResponseWriter, r *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
	proxy.FlushInterval = -1
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tracked := &trackedListener{Listener: l}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(proxy, w, r) }),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }}
	go server.Serve(cutListener{tracked})
	cut = func() {
		server.Close()
		tracked.closeAll() // http.Server does not close upgraded connections
	}
	t.Cleanup(cut)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: k, cluster: {server: 'http://" + l.Addr().String() + "'}}]\n" +
		"users: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: k, user: u}}]\ncurrent-context: c\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Kubeconfig = file
	return c, cut
}

// trackedListener can close all accepted connections.
type trackedListener struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

// Accept implements [net.Listener].
func (l *trackedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conns = append(l.conns, c)
	}
	return c, err
}

func (l *trackedListener) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.Close()
	}
}

// TestOutage cuts the API server off while a program runs: the run ends in an error and never as a success, and so
// does each later one.
func TestOutage(t *testing.T) {
	c := testConfig(t)
	through, cut := startProxy(t, c, func(next http.Handler, w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, r) })
	through.Lease = 3 * time.Second
	b := newBackend(t, through, 0)
	s, err := b.Start(t.Context(), backends.Spec{ID: ulid.Make().String(), Language: "shell"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", "echo begun; sleep 1000"}},
		backends.Streams{Stdout: writerFunc(func(text []byte) { cut() })})
	if err == nil {
		t.Errorf("ended %s", r.Ended)
	}
	if _, err := b.Start(t.Context(), backends.Spec{ID: ulid.Make().String(), Language: "shell"}); err == nil {
		t.Error("a sandbox was started without an API server")
	}
	// Close soon leaves the pod to the lease: an API server's outage may be long.
	begun := time.Now()
	if err := b.Close(); err == nil || time.Since(begun) > time.Minute {
		t.Errorf("close: %v after %v", err, time.Since(begun))
	}
	// Another server removes the remaining pods.
	other := newBackend(t, c, 0)
	closeLater(t, other)
	if _, err := other.engine.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	hosttest.Until(t, "all pods are gone", func() bool { return len(podsOf(t, c)) == 0 })
}

// TestRemovedByForce removes a pod by force while its program runs, as for a lost node: the run's error names that
// reason.
func TestRemovedByForce(t *testing.T) {
	c := testConfig(t)
	b := newBackend(t, c, 0)
	closeLater(t, b)
	s := start(t, b, backends.Spec{Language: "shell"})
	id := podsOf(t, c)[0].Meta.Name
	api := apiOf(t, c)
	force := sync.OnceFunc(func() {
		now := map[string]any{"gracePeriodSeconds": 0}
		if err := api.call(t.Context(), http.MethodDelete, api.pathOf("v1", "pods", id), nil, now, nil); err != nil {
			t.Error(err)
		}
	})
	r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", "echo begun; sleep 1000"}},
		backends.Streams{Stdout: writerFunc(func([]byte) { force() })})
	if err == nil || !strings.Contains(err.Error(), "removed it") {
		t.Errorf("ended %s, %v", r.Ended, err)
	}
}

// connKey is the context key of a request's connection.
type connKey struct{}

// cutConn closes a connection after so many more bytes to the client; 0 is never.
type cutConn struct {
	net.Conn
	left, sent atomic.Int64
}

func (c *cutConn) Write(b []byte) (int, error) {
	if limit := c.left.Load(); limit > 0 {
		if int64(len(b)) >= limit {
			n, _ := c.Conn.Write(b[:limit-1])
			c.Conn.Close()
			return n, net.ErrClosed
		}
		c.left.Add(-int64(len(b)))
	}
	c.sent.Add(int64(len(b)))
	return c.Conn.Write(b)
}

// cutListener wraps accepted connections in cutConn.
type cutListener struct{ net.Listener }

func (l cutListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &cutConn{Conn: c}, err
}

// TestBrokenStream breaks the connection to a pod at many places: a run ends with an error or with its whole
// output, and never as a success with truncated output.
func TestBrokenStream(t *testing.T) {
	c := testConfig(t)
	var limit atomic.Int64
	var last atomic.Pointer[cutConn]
	through, _ := startProxy(t, c, func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/exec") {
			conn := r.Context().Value(connKey{}).(*cutConn)
			conn.left.Store(limit.Load())
			last.Store(conn)
		}
		next.ServeHTTP(w, r)
	})
	b := newBackend(t, through, 0)
	closeLater(t, b)
	want := strings.Repeat("a line of output\n", 200)
	attempt := func() (whole bool, err error) {
		s, err := b.Start(t.Context(), backends.Spec{ID: ulid.Make().String(), Language: "shell"})
		if err != nil {
			return false, err
		}
		defer s.Close()
		var out bytes.Buffer
		r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", "for i in {1..200}; do echo a line of output; done"}},
			backends.Streams{Stdout: &out})
		if err == nil && (r.Ended != backends.EndedOK || out.String() != want) {
			t.Errorf("cut after %d bytes: ended %s with %d bytes", limit.Load(), r.Ended, out.Len())
		}
		return err == nil, err
	}
	if whole, err := attempt(); !whole {
		t.Fatal(err)
	}
	all := last.Load().sent.Load()
	broken := 0
	for _, part := range []float64{0.1, 0.5, 0.8, 0.9, 0.95, 0.97, 0.99} {
		limit.Store(max(1, int64(part*float64(all))))
		if whole, err := attempt(); !whole {
			broken++
			t.Logf("cut after %d of %d bytes: %v", limit.Load(), all, err)
		}
	}
	if broken == 0 {
		t.Error("nothing was broken")
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}

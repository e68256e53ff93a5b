package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// world is a gateway with one listener, and the servers of names. The sandbox's side consists of clients in this
// process: all of 127/8 is local.
type world struct {
	*Gateway
	t       testing.TB
	port    int // the port that clients connect to
	mu      sync.Mutex
	servers map[string]string // address of each name's server
	dials   atomic.Int64
}

// in makes a world. port is the listener's port as the gateway sees it; 0 is the real one.
func in(t testing.TB, port int, c Config) *world {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8")
	}
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, port: l.Addr().(*net.TCPAddr).Port, servers: map[string]string{}}
	if port != 0 {
		l = portListener{l, port}
	}
	c = usual(c)
	c.Dial = w.dial
	w.Gateway = Open(c, Sockets{Ports: []net.Listener{l}})
	t.Cleanup(w.Close)
	return w
}

// usual returns c with the names below test allowed by default.
func usual(c Config) Config {
	if c.Decide == nil {
		c.Decide = func(_ context.Context, name string, port int) Decision {
			if strings.HasSuffix(name, ".test") {
				return Decision{Name: name, Port: port, Allowed: true, Reason: "allowed by *.test"}
			}
			return Decision{Name: name, Port: port, Reason: "not among the allowed domains"}
		}
	}
	if c.Decided == nil {
		c.Decided = func(context.Context, Decision) error { return nil }
	}
	return c
}

// portListener makes connections appear to come to another port, such as 443.
type portListener struct {
	net.Listener
	port int
}

type portConn struct {
	*net.TCPConn
	local net.Addr
}

func (c portConn) LocalAddr() net.Addr { return c.local }

func (l portListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	at := *conn.LocalAddr().(*net.TCPAddr)
	at.Port = l.port
	return portConn{conn.(*net.TCPConn), &at}, nil
}

func (w *world) dial(ctx context.Context, name string, port int) (net.Conn, error) {
	w.dials.Add(1)
	w.mu.Lock()
	at := w.servers[name]
	w.mu.Unlock()
	if at == "" {
		return nil, fmt.Errorf("%s: no such host", name)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", at)
}

// server serves name's connections by f, each in its own goroutine, and closes them.
func (w *world) server(name string, f func(*net.TCPConn)) {
	w.t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	work.Go(func() {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				time.Sleep(time.Millisecond)
				continue
			}
			work.Go(func() {
				defer conn.Close()
				defer context.AfterFunc(ctx, func() { conn.Close() })()
				f(conn.(*net.TCPConn))
			})
		}
	})
	w.t.Cleanup(func() { l.Close(); cancel(); work.Wait() })
	w.mu.Lock()
	w.servers[name] = l.Addr().String()
	w.mu.Unlock()
}

// connect connects to name like the program in the sandbox.
func (w *world) connect(name string) *net.TCPConn {
	w.t.Helper()
	conn, err := w.dialName(name)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	return conn
}

func (w *world) dialName(name string) (*net.TCPConn, error) {
	at, err := w.addresses.address(name)
	if err != nil {
		return nil, err
	}
	return w.tryAt(at.String())
}

func (w *world) tryAt(address string) (*net.TCPConn, error) {
	conn, err := net.Dial("tcp4", net.JoinHostPort(address, strconv.Itoa(w.port)))
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// refused waits for a record of a refusal that contains words, since the last call.
func (w *world) refused(words string) {
	w.t.Helper()
	hosttest.Until(w.t, fmt.Sprintf("a refusal with %q is recorded", words), func() bool {
		return slices.ContainsFunc(w.TakeRecords(), func(r Record) bool { return !r.Allowed && strings.Contains(r.Reason, words) })
	})
}

// blocked waits for a goroutine that is in function, as the runtime names it.
func blocked(t testing.TB, function string) {
	t.Helper()
	all := make([]byte, 1<<20)
	hosttest.Until(t, "a goroutine is in "+function, func() bool {
		return bytes.Contains(all[:runtime.Stack(all, true)], []byte(function+"("))
	})
}

// mustReset fails unless conn is reset.
func mustReset(t testing.TB, conn net.Conn) {
	t.Helper()
	b, err := io.ReadAll(conn)
	if !errors.Is(err, syscall.ECONNRESET) || len(b) > 0 {
		t.Errorf("got %q and %v, want a reset", b, err)
	}
}

// mustRefuse fails unless a connection to name is reset at once.
func (w *world) mustRefuse(name string) {
	w.t.Helper()
	w.mustReset(w.dialName(name))
}

// mustReset checks the result of try: the reset may come before connect(2) returns.
func (w *world) mustReset(conn *net.TCPConn, err error) {
	w.t.Helper()
	switch {
	case err == nil:
		mustReset(w.t, conn)
		_ = conn.Close()
	case !errors.Is(err, syscall.ECONNRESET):
		w.t.Error(err)
	}
}

// echo leaves no pipes behind, unlike io.Copy between connections, which does until the next collection.
func echo(conn *net.TCPConn) {
	_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn})
}

// sink collects all bytes that servers receive.
type sink struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *sink) serve(conn *net.TCPConn) {
	b := make([]byte, 4096)
	for {
		n, err := conn.Read(b)
		s.mu.Lock()
		s.b.Write(b[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestEcho(t *testing.T) {
	w := in(t, 0, Config{})
	w.server("a.test", echo)
	conn := w.connect("a.test")
	message := bytes.Repeat([]byte("\x01 message "), 100_000) // a megabyte: many buffers
	go func() {
		_, _ = conn.Write(message)
		_ = conn.CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	if err != nil || !bytes.Equal(got, message) {
		t.Fatalf("%d bytes came back of %d, and %v", len(got), len(message), err)
	}
	w.Close()
	records := w.TakeRecords()
	want := Record{Decision: Decision{Name: "a.test", Port: w.port, Allowed: true, Reason: "allowed by *.test"},
		Count: 1, Sent: int64(len(message)), Received: int64(len(message))}
	if len(records) != 1 || records[0] != want {
		t.Errorf("got %+v, want %+v", records, want)
	}
}

func TestRefused(t *testing.T) {
	var recorded atomic.Int64
	w := in(t, 0, Config{Decided: func(_ context.Context, d Decision) error { recorded.Add(1); return nil }})
	for range 3 {
		w.mustRefuse("evil.example")
	}
	w.refused("not among")
	if recorded.Load() != 1 {
		t.Errorf("recorded %d times, want once", recorded.Load())
	}
	for i := range 50 {
		w.mustReset(w.tryAt(fmt.Sprintf("127.64.9.%d", i)))
	}
	w.refused("the address belongs to no name")
	if w.dials.Load() > 0 {
		t.Errorf("%d names were dialed", w.dials.Load())
	}
}

// TestRefusedAfterRecord: a program may end when it is refused, and its run's records are read then.
func TestRefusedAfterRecord(t *testing.T) {
	for why, connect := range map[string]func(*world) (*net.TCPConn, error){
		"no name": func(w *world) (*net.TCPConn, error) { return w.tryAt("127.64.9.1") },
		"a PROXY header": func(w *world) (*net.TCPConn, error) {
			conn := w.connect("a.test")
			_, err := io.WriteString(conn, "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n")
			return conn, err
		},
		"a connection too many": func(w *world) (*net.TCPConn, error) {
			ping(t, w.connect("a.test"))
			return w.dialName("a.test")
		},
	} {
		t.Run(why, func(t *testing.T) {
			var recorded atomic.Bool
			w := in(t, 0, Config{Connections: 1, Decided: func(_ context.Context, d Decision) error {
				if !d.Allowed {
					time.Sleep(50 * time.Millisecond) // a busy log
					recorded.Store(true)
				}
				return nil
			}})
			w.server("a.test", echo)
			w.mustReset(connect(w))
			if !recorded.Load() {
				t.Error("it was refused before this was recorded")
			}
		})
	}
}

// TestFullWhileBusy: connections beyond the limit take few descriptors while the log is busy.
func TestFullWhileBusy(t *testing.T) {
	busy := make(chan struct{})
	w := in(t, 0, Config{Connections: 1, Decided: func(_ context.Context, d Decision) error {
		if !d.Allowed {
			<-busy
		}
		return nil
	}})
	end := sync.OnceFunc(func() { close(busy) })
	defer end()
	w.server("a.test", echo)
	ping(t, w.connect("a.test"))
	const more = 20
	var refused atomic.Int64
	var all sync.WaitGroup
	for range more {
		all.Go(func() {
			conn, err := w.dialName("a.test")
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
				_ = conn.Close()
			}
			if !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("got %v", err)
			}
			refused.Add(1)
		})
	}
	hosttest.Until(t, "all but a few are refused", func() bool { return refused.Load() == more-maxRefusing })
	end()
	all.Wait()
}

func TestManyRefusals(t *testing.T) {
	w := in(t, 0, Config{})
	w.server("a.test", echo)
	for i := range maxRefused + 25 {
		w.counters.release(w.counters.holdEntry(Decision{Name: fmt.Sprint(i)}))
	}
	ping(t, w.connect("a.test")) // allowed connections have their own limit
	records := w.TakeRecords()
	last := records[len(records)-1]
	if len(records) != maxRefused+2 || last.Count != 25 || last.Reason != "and 25 more" || last.Name != "" {
		t.Errorf("%d records, the last is %+v", len(records), last)
	}
	w.counters.release(w.counters.holdEntry(Decision{Name: "again"}))
	if records = w.TakeRecords(); len(records) != 1 || records[0].Name != "again" {
		t.Errorf("after Take: %+v", records)
	}
}

func TestManyAllowed(t *testing.T) {
	w := in(t, 0, Config{})
	w.server("a.test", echo)
	for i := range maxAllowed {
		w.counters.release(w.counters.holdEntry(Decision{Name: fmt.Sprint(i), Allowed: true}))
	}
	w.mustRefuse("a.test")
	w.refused("different destinations")
}

// ping sends four bytes and expects them back.
func ping(t testing.TB, conn net.Conn) {
	t.Helper()
	if _, err := conn.Write([]byte("\x01\x02\x03\x04")); err != nil {
		t.Fatal(err)
	}
	var b [4]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		t.Fatal(err)
	}
}

// counted waits until n bytes were counted since the last Take: bytes count once they have been passed on.
func (w *world) counted(n int64) {
	w.t.Helper()
	hosttest.Until(w.t, fmt.Sprint(n, " bytes are counted"), func() bool {
		w.counters.mu.Lock()
		defer w.counters.mu.Unlock()
		sum := int64(0)
		for _, e := range w.counters.order {
			sum += e.sent.Load() + e.received.Load()
		}
		return sum == n
	})
}

// TestTake calls Take in the middle of a connection.
func TestTake(t *testing.T) {
	var recorded atomic.Int64
	w := in(t, 0, Config{Decided: func(context.Context, Decision) error { recorded.Add(1); return nil }})
	w.server("a.test", echo)
	conn := w.connect("a.test")
	for i, count := range []int64{1, 0, 0} {
		ping(t, conn)
		w.counted(8)
		if r := w.TakeRecords(); len(r) != 1 || r[0].Count != count || r[0].Sent != 4 || r[0].Received != 4 {
			t.Errorf("take %d: %+v", i, r)
		}
	}
	if r := w.TakeRecords(); len(r) != 0 {
		t.Errorf("nothing moved, and there is %+v", r)
	}
	again := w.connect("a.test")
	ping(t, again)
	ping(t, conn)
	w.counted(16)
	if r := w.TakeRecords(); len(r) != 1 || r[0].Count != 1 || r[0].Sent != 8 {
		t.Errorf("both at once: %+v", r)
	}
	if recorded.Load() != 2 { // once in each period with a connection
		t.Errorf("recorded %d times, want 2", recorded.Load())
	}
}

// TestDecided checks that no byte leaves before the decision was recorded, and none if recording fails.
func TestDecided(t *testing.T) {
	for _, fail := range []error{errors.New("disk full"), nil} {
		var recorded atomic.Int64
		write := make(chan struct{})
		w := in(t, 0, Config{Decided: func(_ context.Context, d Decision) error {
			if d.Name != "a.test" || !d.Allowed {
				return nil
			}
			recorded.Add(1)
			<-write
			return fail
		}})
		w.server("a.test", echo)
		w.server("b.test", echo)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if fail != nil {
					w.mustRefuse("a.test")
				} else {
					ping(t, w.connect("a.test"))
				}
			})
		}
		hosttest.Until(t, "five connections are there, and one has its decision recorded",
			func() bool { return w.open.Load() == 5 && recorded.Load() == 1 })
		ping(t, w.connect("b.test")) // which came later
		if n := w.dials.Load(); n != 1 {
			t.Errorf("%d dials before the decision was recorded", n-1)
		}
		close(write)
		all.Wait()
		if fail != nil {
			w.refused("can't be recorded")
		}
		if dials := w.dials.Load(); fail != nil && dials != 1 || fail == nil && (dials != 6 || recorded.Load() != 1) {
			t.Errorf("%v: %d dials, and recorded %d times", fail, dials, recorded.Load())
		}
	}
}

func TestUnreachable(t *testing.T) {
	w := in(t, 0, Config{})
	conn := w.connect("nowhere.test")
	_, _ = conn.Write([]byte("\x01\x02\x03"))
	mustReset(t, conn)
	r := w.TakeRecords()
	if len(r) != 1 || !r[0].Allowed || !r[0].Failed || !strings.Contains(r[0].Reason, "no such host") {
		t.Errorf("%+v", r)
	}
	silent := w.connect("nowhere.test") // waits for the server to speak first
	mustReset(t, silent)
}

// TestBlocked has a name at a blocked address.
func TestBlocked(t *testing.T) {
	w := in(t, 0, Config{})
	w.Gateway.config.Dial = func(context.Context, string, int) (net.Conn, error) {
		return nil, fmt.Errorf("dial: %w", &Blocked{Name: "a.test", Addr: netip.MustParseAddr("10.0.0.1"), Why: "private"})
	}
	conn := w.connect("a.test")
	_, _ = conn.Write([]byte("\x01\x02"))
	mustReset(t, conn)
	w.refused("10.0.0.1")
	conn = w.connect("a.test")
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
	if response, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(response), "HTTP/1.1 403") {
		t.Errorf("got %q and %v", response, err)
	}
}

// TestGone has the client disconnect while a person decides.
func TestGone(t *testing.T) {
	for _, how := range []string{"close", "reset", "close after bytes"} {
		t.Run(how, func(t *testing.T) {
			asked, ended := make(chan struct{}), make(chan struct{})
			w := in(t, 0, Config{Decide: func(ctx context.Context, name string, port int) Decision {
				close(asked)
				<-ctx.Done()
				close(ended)
				return Decision{Name: name, Port: port, Reason: "nobody decided"}
			}})
			conn := w.connect("a.test")
			<-asked
			blocked(t, "egress.watchHangUp.func1")
			switch how {
			case "reset":
				_ = conn.SetLinger(0)
			case "close after bytes":
				_, _ = conn.Write([]byte("hello"))
			}
			_ = conn.Close()
			<-ended
		})
	}
}

// TestHeld has a client wait for a person to allow the connection.
func TestHeld(t *testing.T) {
	answer := make(chan struct{})
	w := in(t, 0, Config{Decide: func(ctx context.Context, name string, port int) Decision {
		<-answer
		return Decision{Name: name, Port: port, Allowed: ctx.Err() == nil, Reason: "a person said so"}
	}})
	w.server("a.test", echo)
	conn := w.connect("a.test")
	blocked(t, "egress.watchHangUp.func1")
	close(answer)
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n") // which is inspected as usual
	if response, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(response), "HTTP/1.1 403") {
		t.Errorf("got %q and %v", response, err)
	}
}

func TestTooMany(t *testing.T) {
	w := in(t, 0, Config{Connections: 3})
	w.server("a.test", echo)
	var held []*net.TCPConn
	for range 3 {
		conn := w.connect("a.test")
		ping(t, conn)
		held = append(held, conn)
	}
	w.mustRefuse("a.test")
	w.refused("the limit of 3 connections")
	_ = held[0].Close()
	hosttest.Until(t, "there is room again", func() bool {
		conn, err := w.dialName("a.test")
		if err != nil {
			return false
		}
		defer conn.Close()
		_, _ = conn.Write([]byte("\x01"))
		_, err = io.ReadFull(conn, make([]byte, 1))
		return err == nil
	})
}

// TestIdleHalf checks that an idle connection ends, with one side or none closed.
func TestIdleHalf(t *testing.T) {
	w := in(t, 0, Config{Idle: 50 * time.Millisecond})
	over := make(chan struct{})
	defer close(over)
	w.server("hold.test", func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn); <-over })
	silent, held := w.connect("hold.test"), w.connect("hold.test")
	_ = held.CloseWrite()
	mustReset(t, silent)
	mustReset(t, held)
}

func TestServerFirst(t *testing.T) {
	for name, greeting := range map[string]string{
		"ssh": "SSH-2.0-OpenSSH_9.9\r\n", "smtp": "220 mail ESMTP\r\n", "ftp": "220 ready\r\n", "mysql": "J\x00\x00\x00\x0a8.4.0\x00",
		"one byte": "\x01", "telnet": "\xff\xfd\x18",
	} {
		for _, port := range []int{0, 80, 443} {
			w := in(t, port, Config{})
			w.server("a.test", func(conn *net.TCPConn) {
				_, _ = io.WriteString(conn, greeting)
				echo(conn)
			})
			conn := w.connect("a.test")
			b := make([]byte, len(greeting))
			if _, err := io.ReadFull(conn, b); err != nil || string(b) != greeting {
				t.Errorf("%s on %d: got %q and %v", name, port, b, err)
				continue
			}
			_, _ = io.WriteString(conn, "a1 LOGIN") // not even a complete line
			if _, err := io.ReadFull(conn, make([]byte, 8)); err != nil {
				t.Errorf("%s on %d: %v", name, port, err)
			}
			w.Close()
			if r := w.TakeRecords(); len(r) != 1 || r[0].Received != int64(len(greeting)+8) || r[0].Sent != 8 {
				t.Errorf("%s on %d: %+v", name, port, r)
			}
		}
	}
}

// TestServerEnds has servers close or reset before the client sends anything.
func TestServerEnds(t *testing.T) {
	w := in(t, 0, Config{})
	w.server("close.test", func(*net.TCPConn) {})
	w.server("reset.test", func(conn *net.TCPConn) { _ = conn.SetLinger(0) })
	if b, err := io.ReadAll(w.connect("close.test")); err != nil || len(b) > 0 {
		t.Errorf("close: %q, %v", b, err)
	}
	w.mustRefuse("reset.test")
}

// TestEachConnectionIsDecided has a client with a persistent connection, and a server that closes its own after
// each answer: the next server connection needs another decision.
func TestEachConnectionIsDecided(t *testing.T) {
	var asked, served atomic.Int64
	w := in(t, 0, Config{Decide: func(_ context.Context, name string, port int) Decision {
		d := Decision{Name: name, Port: port, Allowed: asked.Add(1) < 3, Reason: "allowed twice"}
		if !d.Allowed {
			d.Reason = "not any more"
		}
		return d
	}})
	w.server("a.test", func(conn *net.TCPConn) {
		served.Add(1)
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	conn := w.connect("a.test")
	r := bufio.NewReader(conn)
	for i, want := range []int{200, 200, 403} {
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != want || want == 403 && !strings.Contains(string(body), "not any more") {
			t.Errorf("request %d: %s %q", i, answer.Status, body)
		}
	}
	_ = conn.Close()
	w.Close()
	if n := served.Load(); n != 2 {
		t.Errorf("%d connections were made, want 2", n)
	}
	for _, r := range w.TakeRecords() {
		if r.Allowed && (r.Count != 2 || r.Sent == 0 || r.Received == 0) || !r.Allowed && r.Reason != "not any more" {
			t.Errorf("%+v", r)
		}
	}
}

// TestBudget has two gateways that share a budget.
func TestBudget(t *testing.T) {
	b := &Budget{}
	const all = 5 * descriptorsPerConn
	b.left.Store(all)
	one, two := in(t, 0, Config{Budget: b}), in(t, 0, Config{Budget: b})
	for _, w := range []*world{one, two} {
		w.server("a.test", func(conn *net.TCPConn) { _, _ = io.Copy(conn, conn) })
	}
	one.echo("a.test")
	two.echo("a.test")
	two.echo("a.test")
	at, err := two.addresses.address("a.test")
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp4", netip.AddrPortFrom(at, uint16(two.port)).String()); err == nil { // it got more than the remaining budget
		mustReset(t, conn.(*net.TCPConn))
	}
	one.echo("a.test")
	one.Close() // returns all of its budget
	two.echo("a.test")
	one.TakeRecords()
	two.Close()
	if left := b.left.Load(); left != all {
		t.Errorf("%d left", left)
	}
}

// echo connects to a server that returns its input, and checks that it does.
func (w *world) echo(name string) *net.TCPConn {
	w.t.Helper()
	conn := w.connect(name)
	answer := make([]byte, 1)
	fmt.Fprint(conn, "\x01")
	if _, err := io.ReadFull(conn, answer); err != nil || answer[0] != 1 {
		w.t.Fatalf("%s: %v %v", name, answer, err)
	}
	return conn
}

func TestEnd(t *testing.T) {
	w := in(t, 0, Config{})
	for _, name := range []string{"a.test", "b.test"} {
		w.server(name, func(conn *net.TCPConn) { _, _ = io.Copy(conn, conn) })
	}
	a, b := w.echo("a.test"), w.echo("b.test")
	w.CloseDenied(func(name string, port int) bool { return name == "b.test" && port == w.port })
	mustReset(t, a)
	fmt.Fprint(b, "\x02")
	if _, err := io.ReadFull(b, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// TestEndWhileDeciding: a connection that was allowed before End, and would be opened only after it, is closed.
func TestEndWhileDeciding(t *testing.T) {
	asked, decide := make(chan struct{}), make(chan struct{})
	w := in(t, 0, Config{Decide: func(_ context.Context, name string, port int) Decision {
		close(asked)
		<-decide
		return Decision{Name: name, Port: port, Allowed: true, Reason: "allowed by what was in force"}
	}})
	w.server("a.test", func(conn *net.TCPConn) { conn.Close() })
	conn := w.connect("a.test")
	<-asked
	w.CloseDenied(func(string, int) bool { return false })
	close(decide)
	mustReset(t, conn)
	if n := w.dials.Load(); n != 0 {
		t.Errorf("it was dialled %d times", n)
	}
}

package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestHalfClose closes each direction first, and continues to send in the other.
func TestHalfClose(t *testing.T) {
	message := make([]byte, 3<<20)
	_, _ = rand.Read(message)
	message[0] = 1 // not text
	t.Run("the client first", func(t *testing.T) {
		w := in(t, 0, Config{})
		w.server("a.test", func(conn *net.TCPConn) {
			all, err := io.ReadAll(conn)
			if err != nil {
				t.Error(err)
			}
			blocked(t, "egress.isReset")
			_, _ = conn.Write(all)
		})
		conn := w.connect("a.test")
		_, _ = conn.Write(message)
		_ = conn.CloseWrite()
		if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, message) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
	t.Run("the server first", func(t *testing.T) {
		w := in(t, 0, Config{})
		got := make(chan []byte, 1)
		w.server("a.test", func(conn *net.TCPConn) {
			_, _ = conn.Write(message)
			_ = conn.CloseWrite()
			all, err := io.ReadAll(conn)
			if err != nil {
				t.Error(err)
			}
			got <- all
		})
		conn := w.connect("a.test")
		if all, err := io.ReadAll(conn); err != nil || !bytes.Equal(all, message) {
			t.Errorf("%d bytes, %v", len(all), err)
		}
		_, _ = conn.Write(message)
		_ = conn.Close()
		if all := <-got; !bytes.Equal(all, message) {
			t.Errorf("the server got %d bytes", len(all))
		}
	})
	t.Run("nothing is said", func(t *testing.T) {
		w := in(t, 0, Config{})
		w.server("a.test", func(conn *net.TCPConn) {
			_, _ = io.ReadAll(conn)
			_, _ = io.WriteString(conn, "the time")
		})
		conn := w.connect("a.test")
		_ = conn.CloseWrite()
		if got, err := io.ReadAll(conn); err != nil || string(got) != "the time" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestReset resets each side, in each state.
func TestReset(t *testing.T) {
	for _, state := range []string{"open", "the other side ended", "this side ended"} {
		for _, side := range []string{"client", "server"} {
			t.Run(side+", "+state, func(t *testing.T) {
				w := in(t, 0, Config{})
				accepted := make(chan *net.TCPConn)
				done := make(chan struct{})
				defer close(done)
				w.server("a.test", func(conn *net.TCPConn) {
					_, _ = io.ReadFull(conn, make([]byte, 4))
					_, _ = conn.Write([]byte("\x01\x02\x03\x04"))
					accepted <- conn
					<-done
				})
				this := w.connect("a.test")
				_, _ = this.Write([]byte("\x01\x02\x03\x04"))
				other := <-accepted
				_, _ = io.ReadFull(this, make([]byte, 4))
				if side == "server" {
					this, other = other, this
				}
				switch state {
				case "this side ended":
					_ = this.CloseWrite()
					if _, err := other.Read(make([]byte, 1)); err != io.EOF {
						t.Errorf("got %v, want the end", err)
					}
				case "the other side ended":
					_ = other.CloseWrite()
					_, _ = this.Read(make([]byte, 1))
				}
				if state != "open" {
					blocked(t, "egress.isReset")
				}
				_ = this.SetLinger(0)
				_ = this.Close()
				if state == "this side ended" { // then only waiting shows it, and reading would not
					if !isReset(other) {
						t.Error("no reset came")
					}
					return
				}
				if _, err := other.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("got %v, want a reset", err)
				}
			})
		}
	}
}

// TestSlowReader has clients that do not read, and one that must not be affected.
func TestSlowReader(t *testing.T) {
	w := in(t, 0, Config{})
	w.server("flood.test", func(conn *net.TCPConn) {
		b := make([]byte, 1<<20)
		for {
			if _, err := conn.Write(b); err != nil {
				return
			}
		}
	})
	w.server("a.test", echo)
	for range 30 {
		conn := w.connect("flood.test")
		_, _ = conn.Write([]byte{1})
	}
	w.full(30)
	ping(t, w.connect("a.test"))
}

// full waits until n transfers wait for a reader.
func (w *world) full(n int) {
	w.t.Helper()
	all := make([]byte, 4<<20)
	hosttest.Until(w.t, fmt.Sprint(n, " transfers wait"), func() bool {
		waiting := 0
		for _, stack := range bytes.Split(all[:runtime.Stack(all, true)], []byte("\n\n")) {
			if bytes.Contains(stack, []byte("egress.(*Gateway).copyAvailable(")) && bytes.Contains(stack, []byte("poll.(*FD).Write(")) {
				waiting++
			}
		}
		return waiting == n
	})
}

// TestClose closes during transfers, and checks for leftovers.
func TestClose(t *testing.T) {
	descriptors, goroutines := openFiles(t), runtime.NumGoroutine()
	w := in(t, 0, Config{Decide: func(ctx context.Context, name string, port int) Decision {
		if name == "ask.test" {
			<-ctx.Done()
		}
		return Decision{Name: name, Port: port, Allowed: ctx.Err() == nil, Reason: "fine"}
	}})
	w.server("a.test", echo)
	over := make(chan struct{})
	w.server("full.test", func(*net.TCPConn) { <-over })
	w.server("web.test", func(conn *net.TCPConn) {
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		_, _ = io.Copy(io.Discard, conn)
	})
	w.Gateway.config.Dial = func(ctx context.Context, name string, port int) (net.Conn, error) {
		if name == "far.test" {
			<-ctx.Done()
		}
		return w.dial(ctx, name, port)
	}
	var clients []*net.TCPConn
	var writing sync.WaitGroup
	bulk := make([]byte, 16<<20)
	open := func(name, text string) {
		conn := w.connect(name)
		_, _ = io.WriteString(conn, text)
		clients = append(clients, conn)
	}
	for range 20 {
		open("a.test", "\x01\x02")
		open("a.test", "GET / HT")
		open("a.test", "\x16\x03\x01\x02\x00\x01")
		open("a.test", "\x00\x00\x00\x08\x04\xd2\x16\x2f")
		open("a.test", "")
		open("ask.test", "GET / HTTP/1.1\r\n")
		open("far.test", "\x01")
		open("web.test", "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n")
		conn := w.connect("full.test")
		writing.Go(func() { _, _ = conn.Write(bulk) })
		clients = append(clients, conn)
	}
	w.full(20)
	w.Close()
	for _, conn := range clients {
		_, _ = io.Copy(io.Discard, conn) // ends when none is left
		_ = conn.Close()
	}
	writing.Wait()
	w.Close() // again
	close(over)
	hosttest.Until(t, "no goroutine and no descriptor is left", func() bool {
		return openFiles(t) <= descriptors+4 && runtime.NumGoroutine() <= goroutines+4 // the servers' listeners are closed later
	})
}

func openFiles(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestTransferWithoutDescriptors uses up all descriptors before a bulk transfer.
func TestTransferWithoutDescriptors(t *testing.T) {
	w := in(t, 0, Config{})
	w.server("a.test", echo)
	conn := w.connect("a.test")
	ping(t, conn)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	none := before
	none.Cur = 3
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	message := bytes.Repeat([]byte("\x01\x02"), 1<<20)
	go func() { _, _ = conn.Write(message); _ = conn.CloseWrite() }()
	got, err := io.ReadAll(conn)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err != nil || !bytes.Equal(got, message) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestNoDescriptors makes the listeners wait, and checks that they serve again afterwards.
func TestNoDescriptors(t *testing.T) {
	w := in(t, 0, Config{})
	w.server("a.test", echo)
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0) // the client's socket, made before
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "client")
	defer file.Close()
	at, err := w.addresses.address("a.test")
	if err != nil {
		t.Fatal(err)
	}
	var before, none syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before)
	none = before
	none.Cur = 3
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	err = syscall.Connect(fd, &syscall.SockaddrInet4{Port: w.port, Addr: at.As4()})
	blocked(t, "egress.retryAfter") // the listener waits before it tries again
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := syscall.Write(fd, []byte("\x01\x02")); err != nil {
		t.Fatal(err)
	}
	if n, err := syscall.Read(fd, make([]byte, 2)); n <= 0 {
		t.Errorf("no answer: %v", err)
	}
}

// TestTenThousand opens ten thousand connections at once, or as many as there are descriptors for: four each, since
// both ends are in this process.
func TestTenThousand(t *testing.T) {
	n := min(hosttest.Rounds(2000, 10_000), (descriptorLimit()-500)/4)
	w := in(t, 0, Config{Connections: 10_000})
	w.server("a.test", func(conn *net.TCPConn) { // without a buffer each, which would be measured, too
		var b [4]byte
		for {
			n, err := conn.Read(b[:])
			if err != nil {
				return
			}
			_, _ = conn.Write(b[:n])
		}
	})
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	conns := make([]*net.TCPConn, n)
	var all sync.WaitGroup
	work := make(chan int)
	talk := func(i int) {
		if _, err := conns[i].Write([]byte("\x01\x02\x03\x04")); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(conns[i], make([]byte, 4)); err != nil {
			t.Error(err)
		}
	}
	for range 16 {
		all.Go(func() {
			for i := range work {
				conn, err := w.dialName("a.test")
				if err != nil {
					t.Error(err)
					continue
				}
				conns[i] = conn
				talk(i)
			}
		})
	}
	for i := range conns {
		work <- i
	}
	close(work)
	all.Wait()
	if t.Failed() {
		return
	}
	runtime.GC()
	runtime.ReadMemStats(&during)
	for i := range conns {
		talk(i)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	each := int64(during.HeapInuse+during.StackInuse-before.HeapInuse-before.StackInuse) / int64(n)
	t.Logf("%d connections, %d bytes each with both ends", n, each)
	if each > 40<<10 {
		t.Errorf("an idle connection takes %d bytes", each)
	}
	w.Close()
	if r := w.TakeRecords(); len(r) != 1 || r[0].Count != int64(n) || r[0].Sent != int64(n)*8 {
		t.Errorf("%+v", r)
	}
}

// BenchmarkConnect compares connecting and one exchange through a gateway with a direct connection.
func BenchmarkConnect(b *testing.B) {
	w := in(b, 0, Config{})
	w.server("a.test", echo)
	round := func(conn net.Conn, err error) {
		if err != nil {
			b.Fatal(err)
		}
		if _, err := conn.Write([]byte{1}); err != nil {
			b.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			b.Fatal(err)
		}
		_ = conn.(*net.TCPConn).SetLinger(0) // otherwise ports run out
		_ = conn.Close()
	}
	at, err := w.addresses.address("a.test")
	if err != nil {
		b.Fatal(err)
	}
	var direct, through time.Duration
	for b.Loop() {
		start := time.Now()
		round(net.Dial("tcp4", w.servers["a.test"]))
		between := time.Now()
		round(w.tryAt(at.String()))
		direct += between.Sub(start)
		through += time.Since(between)
	}
	b.ReportMetric(float64(direct.Microseconds())/float64(b.N), "direct-µs")
	b.ReportMetric(float64(through.Microseconds())/float64(b.N), "through-µs")
}

// BenchmarkBulk compares a transfer through a gateway with one through the simplest proxy.
func BenchmarkBulk(b *testing.B) {
	const size = 256 << 20
	w := in(b, 0, Config{})
	w.server("a.test", func(conn *net.TCPConn) {
		chunk := make([]byte, 1<<20)
		_, _ = conn.Read(chunk[:1])
		for range size / len(chunk) {
			if _, err := conn.Write(chunk); err != nil {
				return
			}
		}
	})
	proxy, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer proxy.Close()
	go func() {
		for {
			client, err := proxy.Accept()
			if err != nil {
				return
			}
			server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp4", w.servers["a.test"])
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(server, client) }()
			go func() { _, _ = io.Copy(client, server); client.Close(); server.Close() }()
		}
	}()
	chunk := make([]byte, 1<<20)
	fetch := func(conn net.Conn, err error) time.Duration {
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		start := time.Now()
		_, _ = conn.Write([]byte{1})
		for got := 0; got < size; {
			n, err := conn.Read(chunk)
			if err != nil {
				b.Fatal(err)
			}
			got += n
		}
		return time.Since(start)
	}
	at, err := w.addresses.address("a.test")
	if err != nil {
		b.Fatal(err)
	}
	var direct, through time.Duration
	for b.Loop() {
		direct += fetch(net.Dial("tcp4", proxy.Addr().String()))
		through += fetch(w.tryAt(at.String()))
	}
	b.ReportMetric(float64(direct)/float64(through), "ratio")
	b.ReportMetric(size*float64(b.N)/through.Seconds()/1e9, "GB/s")
}

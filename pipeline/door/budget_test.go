package door

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// whose identifies the sender of a request by a header, and calls a handler.
func whose(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who := r.Header.Get("Who"); who != "" {
			if err := Authenticate(r.Context(), who); err != nil {
				status(w, err)
				return
			}
		}
		next(w, r)
	})
}

// status answers with the error.
func status(w http.ResponseWriter, err error) {
	if full, ok := errors.AsType[*Refused](err); ok {
		full.RetryAfter(w.Header())
		http.Error(w, full.Text, full.Status)
		return
	}
	http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
}

// small are bounds that a test can fill. A request takes more than requestCost by itself.
func small() bounds {
	b := usual
	b.held, b.heldUnproven, b.heldAlways, b.room = 1<<20, 4*requestCost, 2*requestCost, 50*time.Millisecond
	return b
}

// beginRequest sends a part of a request, which has a body of 100 MB in chunks or by length.
func beginRequest(t *testing.T, d *Door, who, part string) net.Conn {
	t.Helper()
	conn := dial(t, d)
	head := "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n"
	if who != "" {
		head += "Who: " + who + "\r\n"
	}
	must(io.WriteString(conn, head+"\r\n"+part))
	return conn
}

func answer(conn net.Conn) string {
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err.Error()
	}
	body, _ := io.ReadAll(r.Body)
	return fmt.Sprint(r.StatusCode, " ", r.Header.Get("Retry-After"), " ", string(body))
}

// taken returns the bytes that requests hold at a door.
func taken(d *Door) int64 {
	d.budget.mu.Lock()
	defer d.budget.mu.Unlock()
	return d.budget.taken
}

// Received bytes of bodies count, announced ones don't. No sender has more than a quarter, and small requests always
// find room.
func TestBudget(t *testing.T) {
	d, _ := start(t, Config{Handler: whose(func(w http.ResponseWriter, r *http.Request) {
		body, err := ReadBody(r, MaxBody)
		if err != nil {
			status(w, err)
			return
		}
		fmt.Fprint(w, len(body))
	})}, small())
	for range 9 { // that promise a lot, and bring nothing
		beginRequest(t, d, "slow", "{")
	}
	hosttest.Until(t, "nine are under way", func() bool { return taken(d) > 9*requestCost })
	few := taken(d) + requestCost
	if got := answer(beginRequest(t, d, "slow", strings.Repeat("x", 256<<10))); !strings.HasPrefix(got, "429 1 ") {
		t.Errorf("more than a quarter: got %s", got)
	}
	hosttest.Until(t, "the refused one holds nothing", func() bool { return taken(d) < few })
	held := taken(d)
	part := strings.Repeat("x", 200<<10)
	for _, who := range []string{"b", "c", "d", "e"} {
		beginRequest(t, d, who, part)
	}
	hosttest.Until(t, "the others hold much", func() bool { return taken(d) >= held+4*(requestCost+int64(len(part))) })
	if got := answer(beginRequest(t, d, "f", part+part[:50<<10])); !strings.HasPrefix(got, "503 1 ") {
		t.Errorf("more than there is: got %s", got)
	}
	if code, got, _ := request(t, d, "POST", "/", "Who", "honest"); code != 200 || got != "0" {
		t.Errorf("a small request: got %d %s", code, got)
	}
}

// Memory that requests held is released, however the requests end.
func TestBudgetIsReturned(t *testing.T) {
	holds := make(chan func(), 1)
	d, _ := start(t, Config{Handler: whose(func(w http.ResponseWriter, r *http.Request) {
		body, err := ReadBody(r, MaxBody)
		if r.URL.Path == "/keep" {
			holds <- VisitOf(r.Context()).RetainBody()
		}
		_ = Decode(r.Context(), len(body), Values(body), func() error { return nil })
		fmt.Fprint(w, len(body), err)
	})}, usual)
	beginRequest(t, d, "a", strings.Repeat("x", 1<<20)).Close()
	conn := dial(t, d)
	must(io.WriteString(conn, "POST /keep HTTP/1.1\r\nHost: localhost\r\nWho: a\r\nContent-Length: 100000\r\n\r\n"+
		strings.Repeat("[", 100_000)))
	if got := answer(conn); !strings.HasPrefix(got, "200 ") {
		t.Fatalf("got %s", got)
	}
	release := <-holds
	hosttest.Until(t, "what is kept is all that is left", func() bool { n := taken(d); return n > 100_000*perValue && n < 1<<20*perValue })
	release()
	release()
	hosttest.Until(t, "all is given back", func() bool { return taken(d) == 0 && len(d.budget.by) == 0 })
}

// A stream that is passed on counts for the bytes that are held of it.
func TestBudgetOfStreams(t *testing.T) {
	most := make(chan int64, 1)
	d, _ := start(t, Config{Handler: whose(func(w http.ResponseWriter, r *http.Request) {
		n, held := 0, int64(0)
		from := Passing(r, r.Body)
		for b := make([]byte, 32<<10); ; {
			m, err := from.Read(b)
			if n += m; err != nil {
				break
			}
			held = max(held, taken(VisitOf(r.Context()).d))
		}
		most <- held
		fmt.Fprint(w, n)
	})}, small())
	conn := dial(t, d)
	go func() {
		_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nWho: a\r\nContent-Length: 4194304\r\n\r\n")
		_, _ = io.Copy(conn, io.LimitReader(zeros{}, 4<<20))
	}()
	if got := answer(conn); got != "200  4194304" {
		t.Errorf("passed on: got %s", got)
	}
	if held := <-most; held > 100<<10 {
		t.Errorf("%d bytes were held of what is passed on", held)
	}
}

// Requests of nobody make room for each other, and take nothing away from others.
func TestRequestsOfNobody(t *testing.T) {
	ended := make(chan error, 16)
	d, _ := start(t, Config{Handler: whose(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" && r.Header.Get("Who") == "" {
			_, err := ReadBody(r, MaxBody)
			ended <- context.Cause(r.Context())
			status(w, err)
		}
	})}, small())
	for range 8 { // there is room for three
		beginRequest(t, d, "", "{")
	}
	for range 5 {
		if err := <-ended; err != errNoRoom {
			t.Errorf("an old one ended with %v", err)
		}
	}
	if code, got, _ := request(t, d, "GET", "/", "Who", "honest"); code != 200 {
		t.Errorf("got %d %s", code, got)
	}
}

// Answers that nobody reads end when those of the same identity are too many.
func TestUnreadAnswers(t *testing.T) {
	b := small()
	b.held, b.write = 64<<20, time.Hour
	failed := make(chan error, 4)
	d, _ := start(t, Config{Handler: whose(func(w http.ResponseWriter, r *http.Request) {
		_, err := w.Write(make([]byte, 12<<20)) // more than the buffers of a connection hold
		failed <- err
	})}, b)
	unread := dial(t, d)
	must(io.WriteString(unread, "GET / HTTP/1.1\r\nHost: localhost\r\nWho: a\r\n\r\n"))
	hosttest.Until(t, "an answer waits", func() bool { return taken(d) > 12<<20 })
	if code, got, _ := request(t, d, "GET", "/", "Who", "a"); code != 200 || len(got) != 12<<20 {
		t.Errorf("got %d, %d bytes", code, len(got))
	}
	if first, second := <-failed, <-failed; first == nil && second == nil {
		t.Error("an answer that nobody reads is still held")
	}
}

func TestReadAll(t *testing.T) {
	for name, tt := range map[string]struct {
		n, size, most int64
		want          string
	}{
		"nothing": {0, 0, 9, "0"}, "as expected": {100_000, 100_000, 1 << 20, "100000"}, "less": {5, 100, 100, "5"},
		"more": {100_000, 5, 1 << 20, "100000"},
		"most": {100_000, 1 << 20, 100_000, "100000"}, "too much": {100_001, 5, 100_000, "http: request body too large"},
	} {
		all, err := ReadAll(io.LimitReader(zeros{}, tt.n), tt.size, tt.most)
		got := fmt.Sprint(len(all))
		if err != nil {
			got = err.Error()
		}
		if got != tt.want || int64(cap(all)) > max(tt.n*3/2, tt.size)+8<<10 {
			t.Errorf("%s: got %s of %d", name, got, cap(all))
		}
	}
}

func TestValues(t *testing.T) {
	for text, want := range map[string]int64{`{}`: 1, `{"a,b":"c,\",d"}`: 2, `[1,2,3]`: 3, ``: 0, `{"a":[{"b":1}]}`: 5, `"\\",`: 1} {
		if got := Values([]byte(text)); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}

// A large text waits for another that is being decoded, and a small one does not.
func TestDecode(t *testing.T) {
	b := small()
	d, _ := start(t, Config{Handler: whose(func(w http.ResponseWriter, r *http.Request) {
		inside := r.Context()
		err := Decode(inside, 2<<20, 0, func() error {
			if err := Decode(inside, 100, 0, func() error { return nil }); err != nil {
				return err
			}
			err := Decode(inside, 2<<20, 0, func() error { return nil })
			if full, ok := errors.AsType[*Refused](err); !ok || full.Status != 503 {
				return fmt.Errorf("a second one got %v", err)
			}
			return nil
		})
		fmt.Fprint(w, err)
	})}, b)
	if _, got, _ := request(t, d, "GET", "/", "Who", "a"); got != "<nil>" {
		t.Error(got)
	}
	if err := Decode(t.Context(), 1<<30, 1<<30, func() error { return io.EOF }); err != io.EOF { // what came through no door
		t.Error(err)
	}
}

// A request that is given a little room again and again waits no longer than one that is given none.
func TestWaitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := small()
		d := &Door{b: b, budget: newBudget(b)}
		other, v := &Visit{d: d, who: "a", users: 1}, &Visit{d: d, who: "a", users: 1}
		if err := other.reserveBytes(t.Context(), b.held/4); err != nil {
			t.Fatal(err)
		}
		var giving sync.WaitGroup
		defer giving.Wait()
		over := make(chan struct{})
		defer close(over)
		giving.Go(func() {
			for {
				select {
				case <-over:
					return
				case <-time.After(b.room / 2):
				}
				d.budget.mu.Lock()
				d.budget.addHeld("a", -1)
				other.held--
				d.budget.mu.Unlock()
			}
		})
		start := time.Now()
		for range 100 {
			if v.reserveBytes(t.Context(), 1) != nil {
				break
			}
		}
		if waited := time.Since(start); waited > b.room {
			t.Errorf("it waited %v, and %v is the most", waited, b.room)
		}
		v.ReleaseBody()
		if err := v.reserveBytes(t.Context(), 1); err != nil {
			t.Errorf("one that has given back what it held waits again: %v", err)
		}
	})
}

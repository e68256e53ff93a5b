package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// maxMemory bounds the memory of a server at any time, in bytes, whatever one identity sends.
const maxMemory = 250 << 20

// TestServerMemory has one identity send large bodies over 256 connections to each door: incomplete ones, complete
// ones, and ones that expand in memory. Meanwhile the server answers another identity at the same address. A short run
// does a part of this.
func TestServerMemory(t *testing.T) {
	s := startHTTPServer(t)
	for _, name := range []string{"hostile --namespace one", "honest --namespace two", "sdk --e2b --namespace one",
		"person --person --namespace one"} {
		s.token(t, strings.Fields(name)...)
	}
	all := s.attacks(t)
	short := []string{"sessions", "envd, compressed", "mcp, many entries", "people"}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if hosttest.Rounds(0, 1) == 0 && !slices.Contains(short, name) {
			continue
		}
		t.Run(name, func(t *testing.T) { s.flood(t, all[name]) })
	}
	if t.Failed() {
		t.Logf("the server said:\n%s", &s.log)
	}
}

// httpServer is a server process with HTTP.
type httpServer struct {
	home, address string
	serve         *exec.Cmd
	log           hosttest.Buffer
	tokens        map[string]string
}

func startHTTPServer(t *testing.T) *httpServer {
	s := &httpServer{home: t.TempDir(), tokens: map[string]string{}}
	s.serve = command(t.Context(), t, s.home, "serve", "--listen", "127.0.0.1:0")
	s.serve.Stderr = &s.log
	if err := s.serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.serve.Process.Signal(os.Interrupt)
		_ = s.serve.Wait()
	})
	address := regexp.MustCompile(`address=http://(\S+)`)
	hosttest.Until(t, "it listens", func() bool {
		if found := address.FindStringSubmatch(s.log.String()); found != nil {
			s.address = found[1]
		}
		return s.address != ""
	})
	return s
}

func (s *httpServer) token(t *testing.T, args ...string) {
	token, err := command(t.Context(), t, s.home, append([]string{"token", "create"}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	s.tokens[args[0]] = strings.TrimSpace(string(token))
}

// resident returns the server's current or peak memory.
func (s *httpServer) resident(t *testing.T, which string) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.serve.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(which + `:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		hosttest.SkipMissing(t, "proc", which)
	}
	kb, _ := strconv.ParseInt(string(found[1]), 10, 64)
	return kb << 10
}

// request sends a request and returns its response. Headers are alternating names and values.
func (s *httpServer) request(t *testing.T, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	w, err := client.Do(r)
	if err != nil {
		t.Error(err)
		return &http.Response{}, ""
	}
	defer w.Body.Close()
	text, _ := io.ReadAll(w.Body)
	return w, string(text)
}

// attack is a request with a large body, of which a part may be withheld.
type attack struct {
	path    string
	body    []byte // one for all connections
	headers []string
	held    bool // without the last byte
}

// session creates a session of the hostile identity.
func (s *httpServer) session(t *testing.T) (id string) {
	var made struct{ ID string }
	_, text := s.request(t, "POST", "/sessions", `{"language":"shell"}`, "Authorization", "Bearer "+s.tokens["hostile"])
	if err := json.Unmarshal([]byte(text), &made); err != nil || made.ID == "" {
		t.Fatalf("got %v, %s", err, text)
	}
	return made.ID
}

// sandbox creates a sandbox of an SDK, and returns the headers of requests to its ports.
func (s *httpServer) sandbox(t *testing.T) (port func(string) []string) {
	var sandbox struct{ SandboxID, EnvdAccessToken string }
	_, text := s.request(t, "POST", "/sandboxes", `{"templateID":"base","timeout":600}`, "X-API-Key", s.tokens["sdk"])
	if err := json.Unmarshal([]byte(text), &sandbox); err != nil || sandbox.SandboxID == "" {
		t.Fatalf("got %v, %s", err, text)
	}
	return func(port string) []string {
		return []string{"E2b-Sandbox-Id: " + sandbox.SandboxID, "E2b-Sandbox-Port: " + port, "X-Access-Token: " + sandbox.EnvdAccessToken,
			"Authorization: Basic dXNlcjo="}
	}
}

// attacks returns requests to each door.
func (s *httpServer) attacks(t *testing.T) map[string]attack {
	const mb = 1 << 20
	bearer := func(name string) []string { return []string{"Authorization: Bearer " + s.tokens[name]} }
	all := map[string]attack{}
	add := func(name, path, body string, headers ...string) {
		held := slices.Contains([]string{"sessions", "execute", "envd", "page"}, name) // the others are sent whole
		all[name] = attack{path, []byte(body), headers, held}
	}
	// field returns a JSON object with one large field.
	field := func(before string, n int, after string) string { return before + strings.Repeat("# x ", n/4) + after }

	session, port := s.session(t), s.sandbox(t)
	execPath := "/sessions/" + session + "/exec"
	add("sessions", execPath, field(`{"tool":"code_execution","input":{"code":"`, 9*mb, `"}}`), bearer("hostile")...)
	add("editor", execPath, field(`{"tool":"text_editor_code_execution","input":{"command":"create","path":"/home/user/a","file_text":"`,
		15*mb, `"}}`), bearer("hostile")...)
	add("many values", execPath, `{"tool":"code_execution","input":{"code":"1"},"secrets":[`+strings.Repeat(`"",`, 4*mb)+`""]}`,
		bearer("hostile")...)

	add("execute", "/execute", field(`{"language":"bash","code":"`, 9*mb, `"}`), port("49999")...)
	stat := field(`{"path":"`, 15*mb, `"}`)
	add("envd", "/filesystem.Filesystem/Stat", stat, port("49983")...)
	add("envd, the head of a part", "/files?path=/home/user/f", "--b\r\nA: "+strings.Repeat("x", 9*mb)+"\r\n\r\nx\r\n--b--",
		append(port("49983"), "Content-Type: multipart/form-data; boundary=b")...)

	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}},"name":"execute_code","arguments":`
	mcp := append(bearer("hostile"), "Accept: application/json, text/event-stream", "Mcp-Protocol-Version: 2026-07-28",
		"Mcp-Method: tools/call", "Mcp-Name: execute_code")
	add("mcp, a file", "/mcp", field(call+`{"language":"shell","code":"true","files":[{"name":"a","content":"`, 15*mb, `"}]}}}`), mcp...)
	add("mcp, many entries", "/mcp", call+`{"language":"shell","code":"true","args":[`+strings.Repeat("1,", 15*mb/2)+`1]}}}`, mcp...)
	var unknown strings.Builder
	for i := range mb {
		fmt.Fprintf(&unknown, `"a%d":1,`, i)
	}
	add("mcp, unknown arguments", "/mcp", call+"{"+unknown.String()+`"z":1}}}`, mcp...)
	add("v1", "/v1/tools/execute_code", field(`{"language":"shell","code":"`, 9*mb, `"}`), bearer("hostile")...)
	add("people", "/v1/sessions/"+session+"/bridge", field(`{"key":"a","value":"`, 15*mb, `"}`), bearer("person")...)

	cookie, room := s.signIn(t)
	add("page", room+"/cell", "token=x&code="+strings.Repeat("%41", 4*mb/3-100), "Cookie: "+cookie, "Origin: http://"+s.address,
		"Content-Type: application/x-www-form-urlencoded")
	return all
}

// signIn signs in to the page, and returns the cookie and the path of the session.
func (s *httpServer) signIn(t *testing.T) (cookie, room string) {
	_, entrance := s.request(t, "GET", "/", "")
	room = "/" + regexp.MustCompile(`~[a-z2-7]{32}`).FindString(entrance)
	w, text := s.request(t, "POST", room+"/enter", url.Values{"bearer": {s.tokens["person"]}}.Encode(), "Content-Type",
		"application/x-www-form-urlencoded", "Origin", "http://"+s.address)
	if len(w.Cookies()) == 0 {
		t.Fatalf("not let in: %s %s", w.Status, text)
	}
	return w.Cookies()[0].Name + "=" + w.Cookies()[0].Value, room
}

// flood sends an attack over 256 connections while another identity sends requests.
func (s *httpServer) flood(t *testing.T, a attack) {
	const connections = 256
	head := "POST " + a.path + " HTTP/1.1\r\nHost: " + s.address + "\r\n" + strings.Join(a.headers, "\r\n") + "\r\n"
	if !strings.Contains(head, "Content-Type:") {
		head += "Content-Type: application/json\r\n"
	}
	head += "Content-Length: " + strconv.Itoa(len(a.body)) + "\r\n\r\n"
	var senders sync.WaitGroup
	statuses, open, mu := map[int]int{}, []net.Conn{}, sync.Mutex{}
	sent := make(chan struct{})
	for range connections {
		senders.Go(func() {
			conn, err := net.Dial("tcp", s.address)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			_, _ = io.WriteString(conn, head)
			_, _ = conn.Write(a.body[:len(a.body)-1])
			if a.held {
				return
			}
			_, _ = conn.Write(a.body[len(a.body)-1:])
			_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
			w, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil { // cut off: it sends while it is refused
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if statuses[w.StatusCode]++; w.StatusCode >= http.StatusInternalServerError && w.StatusCode != http.StatusServiceUnavailable {
				text, _ := io.ReadAll(io.LimitReader(w.Body, 1<<10))
				t.Errorf("got %s %s", w.Status, text)
			}
			if busy := w.StatusCode == http.StatusServiceUnavailable || w.StatusCode == http.StatusTooManyRequests; busy &&
				w.Header.Get("Retry-After") == "" {
				t.Errorf("%s does not say when to try again", w.Status)
			}
		})
	}
	go func() { senders.Wait(); close(sent) }()
	asked, longest := 0, time.Duration(0)
	for over := false; !over; {
		begun := time.Now()
		w, text := s.request(t, "POST", "/v1/tools/sandbox_stats", "{}", "Authorization", "Bearer "+s.tokens["honest"])
		if w.StatusCode != http.StatusOK {
			t.Errorf("another identity got %s %s", w.Status, text)
		}
		asked, longest = asked+1, max(longest, time.Since(begun))
		select {
		case <-sent:
			over = asked > 3
		case <-time.After(10 * time.Millisecond): // no need for more requests
		}
	}
	most := s.resident(t, "VmHWM")
	t.Logf("at most %d MB; another identity asked %d times, and waited %v at most; answers: %v", most>>20, asked,
		longest.Round(time.Millisecond),
		statuses)
	if most > maxMemory {
		t.Errorf("the server had %d MB in memory", most>>20)
	}
	for _, conn := range open {
		conn.Close()
	}
}

package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// doorStream is a request to one door with an endless response, or one of more bytes than anybody reads.
type doorStream struct {
	line    string // method and path
	headers []string
	body    string
}

func (d doorStream) text(host string) string {
	headers := strings.Join(append(d.headers, fmt.Sprint("Content-Length: ", len(d.body))), "\r\n")
	return d.line + " HTTP/1.1\r\nHost: " + host + "\r\n" + headers + "\r\n\r\n" + d.body
}

// streams returns the streams of each door, for the hostile identities.
func (s *httpServer) streams(t *testing.T) map[string]doorStream {
	bearer := func(name string, more ...string) []string {
		return append([]string{"Authorization: Bearer " + s.tokens[name]}, more...)
	}
	const asJSON, asEvents = "Content-Type: application/json", "Accept: application/json, text/event-stream"
	watch := `{"path":"/"}`
	cookie, room := s.signIn(t)
	return map[string]doorStream{
		"people":      {"GET /v1/events", bearer("person"), ""},
		"page":        {"GET " + room + "/live", []string{"Cookie: " + cookie, "Accept: text/event-stream"}, ""},
		"mcp, by SSE": {"GET /sse", bearer("hostile"), ""},
		"mcp": {"POST /mcp", bearer("hostile", asJSON, asEvents, "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call",
			"Mcp-Name: execute_code"),
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
				`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"progressToken":1},"name":"execute_code","arguments":{"language":"shell","code":"yes"}}}`},
		"sessions": {"POST /sessions/" + s.session(t) + "/exec", bearer("hostile", asJSON, asEvents),
			`{"tool":"code_execution","input":{"code":"yes"}}`},
		"envd": {"POST /filesystem.Filesystem/WatchDir", append(s.sandbox(t)("49983"), "Content-Type: application/connect+json"),
			string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(watch)))) + watch},
	}
}

// TestHostileStreams has one identity at a time open more streams at a door than an address may have connections, and
// read none of them. Meanwhile each door answers another identity at the same address, also by a stream. Package door
// tests their common code, with shorter timeouts.
func TestHostileStreams(t *testing.T) {
	s := startHTTPServer(t)
	for _, name := range []string{"hostile --namespace one", "sdk --e2b --namespace one", "person --person --namespace one",
		"honest --namespace two", "client --e2b --namespace two", "boss --person --namespace two"} {
		s.token(t, strings.Fields(name)...)
	}
	const connections = 640 // an address has 512
	for name, d := range s.streams(t) {
		t.Run(name, func(t *testing.T) {
			for n := range connections {
				conn, err := net.Dial("tcp", s.address)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				_, _ = io.WriteString(conn, d.text(s.address)) // it may be refused already
				if n > 0 {
					continue
				}
				_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
				if w, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || w.StatusCode != http.StatusOK {
					t.Fatalf("the first one got %v, %v", w, err)
				}
			}
			for path, header := range map[string][2]string{
				"/":                       {"Accept", "text/html"},
				"/v1/server":              {"Authorization", "Bearer " + s.tokens["boss"]},
				"/v1/events?follow=false": {"Authorization", "Bearer " + s.tokens["boss"]},
				"/v1/tools/sandbox_stats": {"Authorization", "Bearer " + s.tokens["honest"]},
				"/sessions":               {"Authorization", "Bearer " + s.tokens["honest"]},
				"/sandboxes":              {"X-API-Key", s.tokens["client"]},
			} {
				method, body := "GET", ""
				if strings.HasPrefix(path, "/v1/tools/") {
					method, body = "POST", "{}"
				}
				if w, text := s.request(t, method, path, body, header[0], header[1]); w.StatusCode != http.StatusOK {
					t.Errorf("%s: another identity got %s %s", path, w.Status, text)
				}
			}
		})
	}
	if most := s.resident(t, "VmHWM"); most > maxMemory {
		t.Errorf("the server had %d MB in memory", most>>20)
	}
	if t.Failed() {
		t.Logf("the server said:\n%s", &s.log)
	}
}

// TestTooLargeBodies checks that each door refuses a body beyond its limit before the body arrives, and one of unknown
// length once it exceeds the limit.
func TestTooLargeBodies(t *testing.T) {
	s := startHTTPServer(t)
	for _, name := range []string{"hostile --namespace one", "sdk --e2b --namespace one", "person --person --namespace one"} {
		s.token(t, strings.Fields(name)...)
	}
	streams, session, port := s.streams(t), s.session(t), s.sandbox(t)
	cookie, room := s.signIn(t)
	page := "Cookie: " + cookie + "\r\nOrigin: http://" + s.address + "\r\nContent-Type: application/x-www-form-urlencoded"
	bearer := func(name, kind string) string {
		return "Authorization: Bearer " + s.tokens[name] + "\r\nContent-Type: application/" + kind
	}
	at := func(number, kind string) string {
		return strings.Join(port(number), "\r\n") + "\r\nContent-Type: application/" + kind
	}
	for line, headers := range map[string]string{
		"POST /mcp":                                strings.Join(streams["mcp"].headers, "\r\n"),
		"POST /v1/tools/execute_code":              bearer("hostile", "json"),
		"POST /v1/sessions/" + session + "/bridge": bearer("person", "json"),
		"PUT /v1/sessions/" + session + "/files":   bearer("person", "x-tar"),
		"POST /sessions/" + session + "/exec":      bearer("hostile", "json"),
		"PUT /sessions/" + session + "/files/tar":  bearer("hostile", "x-tar"),
		"POST /sandboxes":                          "X-API-Key: " + s.tokens["sdk"] + "\r\nContent-Type: application/json",
		"POST /execute":                            at("49999", "json"),
		"POST /files?path=a":                       at("49983", "octet-stream"),
		"POST " + room + "/cell":                   page,
	} {
		status := func(rest string) int {
			conn, err := net.Dial("tcp", s.address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go io.WriteString(conn, line+" HTTP/1.1\r\nHost: "+s.address+"\r\n"+headers+"\r\n"+rest)
			w, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Errorf("%s: %v", line, err)
				return 0
			}
			return w.StatusCode
		}
		if got := status(fmt.Sprintf("Content-Length: %d\r\n\r\n", int64(5)<<30)); got != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: got %d", line, got)
		}
		if strings.Contains(line, "/files") { // uploads of the maximum size take long
			continue
		}
		chunk := strings.Repeat(" ", 1<<20)
		if got := status("Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("100000\r\n"+chunk+"\r\n", 26)); got < 400 || got >= 500 {
			t.Errorf("%s in chunks: got %d", line, got)
		}
	}
}

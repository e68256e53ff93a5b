package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// At shutdown, a client of the people's API that stops sending in the middle of a request has ten seconds, and no more.
func TestDrainsSlowPeople(t *testing.T) {
	home := t.TempDir()
	token, err := command(t.Context(), t, home, "token", "create", "ada", "--person", "--namespace", "*").Output()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, "http.sock")
	serve := command(t.Context(), t, home, "serve", "--listen", "unix:"+path)
	var log bytes.Buffer
	serve.Stderr = &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	var conn net.Conn
	hosttest.Until(t, "it listens", func() bool {
		conn, err = net.Dial("unix", path)
		return err == nil
	})
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST /v1/sessions/x/cells HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: "+
		"application/json\r\nExpect: 100-continue\r\n"+
		"Content-Length: 100\r\n\r\n", bytes.TrimSpace(token))
	if err != nil {
		t.Fatal(err)
	}
	begun := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := io.ReadFull(conn, begun); err != nil || !strings.Contains(string(begun), " 100 ") { // sent when the server reads the body
		t.Fatalf("got %q, %v", begun, err)
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(conn)
	if err := serve.Wait(); err != nil || len(rest) > 0 || !strings.Contains(log.String(), "requests under way were cut off") {
		t.Errorf("got %v, and %q for the request that was under way:\n%s", err, rest, &log)
	}
}

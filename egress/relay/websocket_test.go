package relay

import (
	"bufio"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

const socketKey = "dGhlIHNhbXBsZSBub25jZQ=="

// socket is a WebSocket server that echoes in capitals.
func socket(t *testing.T, accept func(key string) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" && r.URL.Path != "/force" {
			io.WriteString(w, "no upgrade")
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols "+r.Header.Get("X-Key")+"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Accept: "+accept(r.Header.Get("Sec-Websocket-Key"))+"\r\nX-Key: "+r.Header.Get("X-Key")+"\r\n\r\n")
		buf := make([]byte, 100)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			io.WriteString(conn, strings.ToUpper(string(buf[:n])))
		}
	}
}

func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func shake(conn net.Conn, path, change string) (*http.Response, *bufio.Reader, error) {
	head := "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + socketKey + "\r\nX-Key: " + placeholder + "\r\n\r\n"
	if old, new, ok := strings.Cut(change, " -> "); ok {
		head = strings.Replace(head, old, new, 1)
	}
	io.WriteString(conn, head)
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	return res, in, err
}

func talk(t *testing.T, conn net.Conn) {
	t.Helper()
	res, in, err := shake(conn, "/", "")
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 101 || leaked(dump(res, "")) {
		t.Fatalf("%s %v", res.Status, res.Header)
	}
	buf := make([]byte, 5)
	for range 3 {
		io.WriteString(conn, "hello")
		if _, err := io.ReadFull(in, buf); err != nil || string(buf) != "HELLO" {
			t.Fatalf("got %q, %v", buf, err)
		}
	}
	conn.Close()
}

func TestWebSocket(t *testing.T) {
	g := newRig(t, setup{server: clearServer(socket(t, acceptKey))})
	talk(t, g.dial())
	for _, change := range []string{
		"websocket -> h2c", "websocket -> websocket, h2c", "websocket -> tcp", "GET -> POST", "13 -> 12",
		socketKey + " -> short", "Key: -> Kex:", "keep-alive, Upgrade -> keep-alive",
		"X-Key: " + placeholder + "\r\n\r\n -> Content-Length: 4\r\n\r\nbody",
	} {
		conn := g.dial()
		res, _, err := shake(conn, "/", change)
		if err != nil || res.StatusCode != 200 {
			t.Errorf("%s: %v, %v", change, res, err)
		}
		conn.Close()
	}
}

func TestWebSocketInsideTLS(t *testing.T) {
	for _, two := range []bool{false, true} { // HTTP/1.1 is used even if the name prefers HTTP/2
		g := newRig(t, setup{server: secureServer(t, two, socket(t, acceptKey)), config: lease(nil).config(), secure: true})
		conn := tls.Client(g.dial(), g.trust())
		talk(t, conn)
	}
}

// TestWebSocketWithoutProof: a status alone opens no tunnel.
func TestWebSocketWithoutProof(t *testing.T) {
	for name, accept := range map[string]func(string) string{
		"none":  func(string) string { return "" },
		"wrong": func(key string) string { return acceptKey(key + "x") },
	} {
		g := newRig(t, setup{server: clearServer(socket(t, accept))})
		if res, _, err := shake(g.dial(), "/", ""); err != nil || res.StatusCode != 502 {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
	g := newRig(t, setup{server: clearServer(socket(t, acceptKey))})
	for _, change := range []string{"websocket -> h2c", "Connection: -> Connect:", "13 -> 8", "Key: " + socketKey + " -> Kex: x"} {
		if res, _, err := shake(g.dial(), "/force", change); err != nil || res.StatusCode != 502 {
			t.Errorf("%s, and yet an upgrade: %v, %v", change, res, err)
		}
	}
}

func TestWebSocketEndsWithItsClient(t *testing.T) {
	ended := make(chan struct{})
	g := newRig(t, setup{server: clearServer(func(w http.ResponseWriter, r *http.Request) {
		socket(t, acceptKey)(w, r)
		close(ended)
	})})
	conn := g.dial()
	if _, _, err := shake(conn, "/", ""); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	<-ended
}

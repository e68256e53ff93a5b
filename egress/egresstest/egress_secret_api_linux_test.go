package egresstest

import (
	"compress/gzip"
	"compress/zlib"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"log"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// api is a server that needs a secret, and returns it in the requested form.
type api struct {
	value string

	mu   sync.Mutex
	seen []heard
}

// heard is a request as it arrived.
type heard struct {
	name, proto, method, uri, host string
	header, trailer                http.Header
	body                           string
	tls                            bool
}

// all returns the complete request, including its encoded parts.
func (h heard) all() string {
	user, password, _ := (&http.Request{Header: h.header}).BasicAuth()
	_, query, _ := strings.Cut(h.uri, "?")
	query, _ = url.QueryUnescape(query)
	return user + " " + password + " " + query + " " + fmt.Sprint(h.method, " ", h.uri, " ", h.host, " ", h.header, " ", h.body, " ",
		h.trailer)
}

// takeRequests returns the requests since the last call.
func (a *api) takeRequests() []heard {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := a.seen
	a.seen = nil
	return seen
}

// listen serves h at a name, and records the requests.
func (a *api) listen(name string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body strings.Builder
		if !strings.HasPrefix(r.URL.Path, "/repo.git") && r.Header.Get("Upgrade") == "" {
			io.Copy(&body, io.LimitReader(r.Body, 1<<20))
			io.Copy(io.Discard, r.Body) // curl reports an unread body as a failure
		}
		a.mu.Lock()
		a.seen = append(a.seen, heard{name, r.Proto, r.Method, r.RequestURI, r.Host, r.Header.Clone(), r.Trailer.Clone(), body.String(),
			r.TLS != nil})
		a.mu.Unlock()
		h.ServeHTTP(w, r)
	})
}

// ownHandlers returns the server's own pages.
func (a *api) ownHandlers() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok "+a.verdict(r)+"\n") })
	mux.HandleFunc("/give", a.serveValue)
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			http.NewResponseController(w).Flush()
		}
	})
	mux.HandleFunc("/ws", webSocket)
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.FormValue("to"), http.StatusFound)
	})
	return mux
}

// verdict reports whether r presents the value like most programs.
func (a *api) verdict(r *http.Request) string {
	user, password, _ := r.BasicAuth()
	switch a.value {
	case strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), r.Header.Get("X-Api-Key"), user, password, r.URL.Query().Get("key"):
		return "known"
	}
	return "unknown"
}

// closed returns h for clients that present the value.
func (a *api) closed(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.verdict(r) != "known" {
			w.Header().Set("WWW-Authenticate", `Basic realm="api"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// spell encodes the value in one of the ways that redaction must detect.
func spell(how, v string) string {
	switch how {
	case "base64":
		return base64.StdEncoding.EncodeToString([]byte(v))
	case "base64url":
		return base64.URLEncoding.EncodeToString([]byte("Bearer " + v + " and more"))
	case "mime":
		text := base64.StdEncoding.EncodeToString([]byte("x" + v))
		return text[:20] + "\r\n" + text[20:]
	case "hex":
		return hex.EncodeToString([]byte(v))
	case "HEX":
		return strings.ToUpper(hex.EncodeToString([]byte(v)))
	case "percent":
		return percent(v, "%%%02x")
	case "query":
		return url.QueryEscape(v)
	case "unicode":
		return percent(v, `\u%04x`)
	case "twice":
		return v + v
	case "page":
		return strings.NewReplacer("+", "&#43;").Replace(html.EscapeString(v))
	case "address":
		return "/login?next=" + url.QueryEscape("/ok?key="+url.QueryEscape(v))
	}
	return v
}

// serveValue returns the value in the requested encoding and place.
func (a *api) serveValue(w http.ResponseWriter, r *http.Request) {
	text, h := spell(r.FormValue("how"), a.value), w.Header()
	line := strings.ReplaceAll(text, "\r\n", "")
	slowly := func(to io.Writer) {
		for i := range len(text) {
			io.WriteString(to, text[i:i+1])
			if f, ok := to.(interface{ Flush() error }); ok {
				f.Flush()
			}
			http.NewResponseController(w).Flush()
		}
	}
	h.Set("Content-Type", "text/plain")
	switch r.FormValue("where") {
	case "body":
		fmt.Fprintf(w, "<%s>", text)
	case "sized":
		h.Set("Content-Length", strconv.Itoa(len(text)))
		io.WriteString(w, text)
	case "error":
		http.Error(w, "unknown key "+text, http.StatusUnauthorized)
	case "chunks":
		slowly(w)
	case "event":
		h.Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", text)
		http.NewResponseController(w).Flush()
		fmt.Fprintf(w, "data: %s\n\n", text)
	case "header":
		h.Set("X-Echo", "it is "+line)
		h.Add("X-Echo", line)
	case "header name":
		h["X-"+line] = []string{"there"}
	case "type":
		h.Set("Content-Type", "text/plain; x="+line)
	case "cookie":
		h.Add("Set-Cookie", "session="+line+"; Path=/")
	case "location":
		h.Set("Location", "https://"+bound+"/ok?k="+line)
		w.WriteHeader(http.StatusFound)
	case "elsewhere":
		h.Set("Location", "https://front.test/stolen/"+line)
		w.WriteHeader(http.StatusTemporaryRedirect)
	case "authenticate":
		h.Set("WWW-Authenticate", `Bearer realm="`+line+`"`)
		w.WriteHeader(http.StatusUnauthorized)
	case "trailer":
		h.Set("Trailer", "X-Late")
		io.WriteString(w, "body")
		h.Set("X-Late", line)
	case "sudden trailer":
		io.WriteString(w, "body")
		http.NewResponseController(w).Flush()
		h.Set(http.TrailerPrefix+"X-Late", line)
	case "early":
		h.Set("Link", "</"+line+">; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		h.Del("Link")
		io.WriteString(w, "body")
	case "gzip":
		h.Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		slowly(z)
		z.Close()
	case "deflate":
		h.Set("Content-Encoding", "deflate")
		z := zlib.NewWriter(w)
		io.WriteString(z, text)
		z.Close()
	case "br":
		h.Set("Content-Encoding", "br")
		io.WriteString(w, text)
	case "gzip called identity":
		z := gzip.NewWriter(w)
		io.WriteString(z, text)
		z.Close()
	case "range":
		http.ServeContent(w, r, "", time.Unix(1, 0), strings.NewReader("0123456789"+text))
	case "cut":
		h.Set("Content-Length", strconv.Itoa(len(text)+100))
		io.WriteString(w, text[:len(text)-1])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case "status":
		a.raw(w, "HTTP/1.1 499 "+line+"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	case "no HTTP":
		a.raw(w, "it is "+line+"\r\n\r\n")
	case "bad header":
		a.raw(w, "HTTP/1.1 200 OK\r\n"+line+"\r\n\r\n")
	case "bad length":
		a.raw(w, "HTTP/1.1 200 OK\r\nContent-Length: "+line+"\r\n\r\n")
	case "bad chunk":
		a.raw(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+line+"\r\n\r\n")
	case "chunk extension":
		a.raw(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x="+line+"\r\na\r\n0\r\n\r\n")
	case "until the end":
		a.raw(w, "HTTP/1.0 200 OK\r\n\r\n"+text)
	case "folded":
		a.raw(w, "HTTP/1.1 200 OK\r\nX-Echo: "+line[:10]+"\r\n "+line[10:]+"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	case "behind":
		a.raw(w, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\nX: "+line+"\r\nContent-Length: 0\r\n\r\n")
	case "switch":
		a.raw(w, "HTTP/1.1 101 "+line+"\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"+line)
	}
}

// raw writes a response that net/http would not write. HTTP/2 does not support it.
func (a *api) raw(w http.ResponseWriter, text string) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "HTTP/1.1 only", http.StatusHTTPVersionNotSupported)
		return
	}
	io.WriteString(c, text)
	c.Close()
}

// serveTLS starts another server on the test's internet, on a port of its own.
func (w *world) serveTLS(c *tls.Config, port string, h http.Handler) {
	w.Helper()
	s := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), TLSConfig: c}
	if len(c.NextProtos) == 1 {
		s.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	go s.ServeTLS(w.internet.listen(w.T, "tcp", ":"+port), "", "")
	w.Cleanup(func() { s.Close() })
}

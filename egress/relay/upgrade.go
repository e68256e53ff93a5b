package relay

import (
	"crypto/sha1"
	"encoding/base64"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// keepUpgrade removes protocol upgrades from r, which servers may ignore, except for WebSockets, whose key it returns.
// Bytes after an upgrade are not checked: in HTTP/2 (Upgrade: h2c) they could be requests with another Host.
func keepUpgrade(r *http.Request) (key string) {
	keys := r.Header["Sec-Websocket-Key"]
	protocols := r.Header["Upgrade"]
	if r.Method == http.MethodGet && r.ProtoMajor == 1 && r.ProtoAtLeast(1, 1) && r.ContentLength == 0 &&
		httpguts.HeaderValuesContainsToken(r.Header["Connection"], "Upgrade") && len(protocols) == 1 &&
		strings.EqualFold(protocols[0], "websocket") && r.Header.Get("Sec-Websocket-Version") == "13" && len(keys) == 1 && isKey(keys[0]) {
		return keys[0]
	}
	r.Header.Del("Upgrade")
	return ""
}

func isKey(key string) bool {
	nonce, err := base64.StdEncoding.DecodeString(key)
	return err == nil && len(nonce) == 16
}

// checkUpgrade returns an error unless the server proves that it accepted the WebSocket. Status 101 alone is not
// enough: a resource that returns a requested status would open a tunnel to a server that continues to parse requests.
func checkUpgrade(key string, answer http.Header) error {
	if key == "" {
		return badAnswer("it changes to another protocol, which was not asked for")
	}
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) // RFC 6455, section 1.3
	if answer.Get("Sec-Websocket-Accept") != base64.StdEncoding.EncodeToString(sum[:]) {
		return badAnswer("it opens a WebSocket without the proof that it knows how to")
	}
	return nil
}

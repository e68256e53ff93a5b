package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// keyAge is the time for which a secret is used before it is read again.
const keyAge = time.Minute

// leastKey is the minimum that the specification allows, in bytes.
const leastKey = 24

// key signs posts.
type key struct {
	source func() ([]byte, error)
	mu     sync.Mutex
	bytes  []byte
	read   time.Time
}

// newKey returns nil if posts are not signed.
func newKey(source func() ([]byte, error)) (*key, error) {
	if source == nil {
		return nil, nil
	}
	k := &key{source: source}
	b, err := k.fetch()
	k.bytes, k.read = b, time.Now()
	return k, err
}

// fetch reads the secret: raw bytes, or "whsec_" and base64.
func (k *key) fetch() ([]byte, error) {
	secret, err := k.source()
	if err != nil {
		return nil, fmt.Errorf("read the signing secret of the webhook: %w", err)
	}
	defer clear(secret)
	b := bytes.TrimSpace(secret)
	if text, coded := bytes.CutPrefix(b, []byte("whsec_")); !coded {
		b = bytes.Clone(b)
	} else if b, err = base64.StdEncoding.AppendDecode(nil, text); err != nil {
		return nil, errors.New("the signing secret of the webhook is not base64 after whsec_") // the error would quote it
	}
	if len(b) < leastKey {
		return nil, fmt.Errorf("the signing secret of the webhook has %d bytes, at least %d are required: use whsec_ and the output of "+
			"openssl rand -base64 32", len(b), leastKey)
	}
	return b, nil
}

// current returns the secret. If reading fails, the previous one stays in use.
func (k *key) current() ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.read) < keyAge {
		return k.bytes, nil
	}
	k.read = time.Now()
	b, err := k.fetch()
	if err == nil {
		k.bytes = b
	}
	return k.bytes, err
}

// sign returns the webhook-signature of a message.
func sign(key []byte, id string, at time.Time, body []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	h.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

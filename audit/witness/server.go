package witness

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

// witnessClient is a witness (https://c2sp.org/tlog-witness): it signs a checkpoint only if that continues the last one
// that it signed.
type witnessClient struct {
	url    string
	key    cosigner
	client *http.Client
}

func newServer(url, key string) (*witnessClient, error) {
	c, err := newCosigner(key)
	if err != nil {
		return nil, fmt.Errorf("the witness %s needs its key behind #, as NAME+HASH+KEY: %w", url, err)
	}
	return &witnessClient{strings.TrimSuffix(url, "/") + "/add-checkpoint", c, &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// maxAnswer is the maximum size of a response, in bytes: a signature is a single line.
const maxAnswer = 64 << 10

// pushCheckpoint requests a signature on the newest checkpoint. The first request claims that the witness has signed
// nothing; the witness answers with its size.
func (s *witnessClient) pushCheckpoint(ctx context.Context, log Log) ([]byte, error) {
	var old int64
	for range 4 { // other processes may push meanwhile
		text, err := log.NewestCheckpoint(ctx)
		if err != nil {
			return nil, err
		}
		size, err := audit.CheckpointSize(text)
		if err != nil {
			return nil, err
		}
		if old > size {
			return nil, fmt.Errorf("the witness says that it has signed %d rows, and the log has a checkpoint of %d: %w (or the witness lies: "+
				"ask who runs it)", old, size, audit.ErrOlder)
		}
		signatures, has, err := s.requestSignature(ctx, log, text, old, size)
		if err != nil || signatures != nil {
			return signatures, err
		}
		if has == old {
			return nil, fmt.Errorf("the witness refuses the size that it names itself, %d rows: the log has other rows up to there, or the "+
				"witness lies", old)
		}
		old = has
	}
	return nil, errors.New("the witness names another size each time")
}

// requestSignature sends a request. has is the size that the witness has signed, if it differs from old.
func (s *witnessClient) requestSignature(ctx context.Context, log Log, text []byte, old, size int64) (signatures []byte, has int64,
	err error) {
	proof, err := log.Consistency(ctx, old, size)
	if err != nil {
		return nil, 0, err
	}
	var body bytes.Buffer
	fmt.Fprintf(&body, "old %d\n", old)
	for _, h := range proof {
		fmt.Fprintf(&body, "%s\n", h)
	}
	fmt.Fprintf(&body, "\n%s", text)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, &body)
	if err != nil {
		return nil, 0, err
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, 0, err
	}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	switch code := answer.StatusCode; {
	case code == http.StatusOK:
		return content, 0, s.key.verifyAnswer(text, content)
	case code == http.StatusConflict && kind == "text/x.tlog.size":
		has, err := strconv.ParseInt(strings.TrimSuffix(string(content), "\n"), 10, 64)
		if err != nil || has < 0 {
			return nil, 0, errors.New("the witness names no size")
		}
		return nil, has, nil
	case code == http.StatusConflict, code == http.StatusUnprocessableEntity:
		return nil, 0, fmt.Errorf("the witness says that the log does not go on from the %d rows that it has signed: they were rewritten", old)
	case code == http.StatusNotFound:
		return nil, 0, errors.New("the witness does not know this log: its operator adds the note of sandboxmcp key show")
	case code == http.StatusForbidden:
		return nil, 0, errors.New("the witness does not know the key that signed: its operator adds the note of sandboxmcp key show")
	}
	return nil, 0, fmt.Errorf("the witness answers %s", answer.Status)
}

// cosigner is the key of a witness, for cosignatures of version 1 (https://c2sp.org/tlog-cosignature): it is a
// note.Verifier.
type cosigner struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

// cosignature is the type of such keys.
const cosignature = 0x04

func newCosigner(text string) (c cosigner, err error) {
	parts := strings.SplitN(text, "+", 3)
	if len(parts) != 3 || parts[0] == "" {
		return c, errors.New("it is missing")
	}
	hash, err := hex.DecodeString(parts[1])
	key, keyErr := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || keyErr != nil || len(hash) != 4 || len(key) != 1+ed25519.PublicKeySize || key[0] != cosignature {
		return c, errors.New("it is not a key for cosignatures of version 1")
	}
	if sum := sha256.Sum256([]byte(parts[0] + "\n" + string(key))); !bytes.Equal(sum[:4], hash) {
		return c, errors.New("its hash is another one")
	}
	return cosigner{parts[0], binary.BigEndian.Uint32(hash), key[1:]}, nil
}

func (c cosigner) Name() string    { return c.name }
func (c cosigner) KeyHash() uint32 { return c.hash }

func (c cosigner) Verify(msg, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	signed := fmt.Sprintf("cosignature/v1\ntime %d\n%s", binary.BigEndian.Uint64(sig), msg)
	return ed25519.Verify(c.key, []byte(signed), sig[8:])
}

// verifyAnswer verifies the witness's signature in its answer.
func (c cosigner) verifyAnswer(checkpoint, lines []byte) error {
	text, _, _ := strings.Cut(string(checkpoint), "\n\n")
	n, err := note.Open([]byte(text+"\n\n"+string(lines)), note.VerifierList(c))
	if err != nil || len(n.Sigs) == 0 {
		return fmt.Errorf("the witness's answer is not a signature of %s on the checkpoint", c.name)
	}
	return nil
}

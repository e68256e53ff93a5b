package vault

import (
	"bytes"
	"errors"
	"io"
	"time"

	"filippo.io/age"

	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// sealedContent is the sealed part of a row. It has the names and the binding beside the value, so that a row with
// changed names does not open, and nobody without the key can change the binding.
type sealedContent struct {
	Namespace string    `json:"namespace"`
	Key       string    `json:"key"`
	Hosts     []string  `json:"hosts"`
	Require   bool      `json:"require"`
	Body      bool      `json:"body"`
	Added     time.Time `json:"added"`
	Value     []byte    `json:"value"`
}

// maxContent bounds the size of a row's content, which strangers may have written.
const maxContent = 2*MaxValue + maxHosts*2*maxHost

var errDamaged = remedy.For(errors.New("its row in the vault was changed or is damaged"), remedy.AddAgain, ", or put a backup back")

// seal encrypts value and e as an age file.
func (id identity) seal(e Entry, value []byte) ([]byte, error) {
	text, err := encodeSecret(e, value)
	if err != nil {
		return nil, err
	}
	defer clear(text)
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, id.key().Recipient())
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return sealed.Bytes(), nil
}

// open decrypts a row, and checks that it was sealed under the row's names.
func (id identity) open(r row) (Entry, []byte, error) {
	in, err := age.Decrypt(bytes.NewReader(r.sealed), id.key())
	if err != nil {
		return Entry{}, nil, errDamaged
	}
	text, err := readContent(in, len(r.sealed))
	if err != nil {
		return Entry{}, nil, err
	}
	defer clear(text)
	return decodeSecret(text, r)
}

// readContent reads the plaintext, which is shorter than the ciphertext, and leaves no copies behind.
func readContent(in io.Reader, sealed int) (text []byte, err error) {
	text = make([]byte, min(sealed, maxContent))
	n := 0
	for err == nil && n < len(text) {
		var more int
		more, err = in.Read(text[n:])
		n += more
	}
	if err != io.EOF { // also if there is more
		clear(text)
		return nil, errDamaged
	}
	return text[:n], nil
}

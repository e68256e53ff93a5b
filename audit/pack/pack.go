// Package pack compresses the data and receipts of rows.
package pack

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Dictionary is the compression dictionary of new logs: the constant parts of rows and receipts, the commonest last.
// Each log stores its own copy, so this one may change.
//
//go:embed dictionary.txt
var Dictionary []byte

// Limits in bytes.
const (
	MaxData       = 1 << 20 // of one row: the log has facts, not outputs
	MaxReceipt    = 1 << 20
	MaxDictionary = 64 << 10
	// MaxContent bounds the unpacked size of a row, whatever its header says: data, a receipt, and two line ends.
	MaxContent = MaxData + MaxReceipt + 2
)

// Codec compresses rows with a log's dictionary, since a single row has little repetition. A row and its receipt are
// compressed together. Encoder and decoder are created on first use.
type Codec struct {
	encoder func() (*zstd.Encoder, error)
	decoder func() (*zstd.Decoder, error)
}

// New returns the codec of a dictionary. Frames have no dictionary id and no checksum: a row has a hash.
func New(dictionary []byte) *Codec {
	return &Codec{
		encoder: sync.OnceValues(func() (*zstd.Encoder, error) {
			return zstd.NewWriter(nil, zstd.WithEncoderDictRaw(0, dictionary), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
				zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(MaxDictionary))
		}),
		decoder: sync.OnceValues(func() (*zstd.Decoder, error) {
			return zstd.NewReader(nil, zstd.WithDecoderDictRaw(0, dictionary), zstd.WithDecoderMaxMemory(MaxContent), zstd.WithDecoderConcurrency(0))
		}),
	}
}

// asIs is the signature of a receipt that is packed unchanged.
var asIs = []byte{0}

// ErrPacked is the error for content that can't be unpacked.
var ErrPacked = errors.New("what it says can't be unpacked")

// Pack returns the stored form of a row's data and receipt: both compressed together, and the receipt's signature: nil
// without a receipt, and asIs for a receipt in another form than ours.
func (p *Codec) Pack(data json.RawMessage, receipt []byte) (packed, signature []byte, err error) {
	content := data
	if len(receipt) > 0 {
		key, payload, sig, ours := takeApart(receipt)
		signature = sig
		if content = append(bytes.Clone(data), '\n'); ours {
			content = append(append(append(content, key...), '\n'), payload...)
		} else {
			content = append(content, receipt...)
		}
	}
	enc, err := p.encoder()
	if err != nil {
		return nil, nil, err
	}
	return enc.EncodeAll(content, make([]byte, 0, len(content)/2)), signature, nil
}

// Content is an unpacked row: its data and, after a line end, the receipt. If the signature is stored apart, the
// receipt's key is in a line of its own.
type Content []byte

// Unpack returns the content of a row, in buf if that is large enough.
func (p *Codec) Unpack(packed, buf []byte) (Content, error) {
	dec, err := p.decoder()
	if err != nil {
		return nil, err
	}
	c, err := dec.DecodeAll(packed, buf)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrPacked, err)
	}
	return c, nil
}

func (c Content) HasReceipt() bool { return bytes.IndexByte(c, '\n') >= 0 }

func (c Content) Data() []byte {
	data, _, _ := bytes.Cut(c, []byte("\n"))
	return data
}

// AppendReceipt appends the receipt to b, byte for byte as before Pack.
func (c Content) AppendReceipt(b, signature []byte) ([]byte, error) {
	_, text, _ := bytes.Cut(c, []byte("\n"))
	if bytes.Equal(signature, asIs) {
		return append(b, text...), nil
	}
	key, payload, ok := bytes.Cut(text, []byte("\n"))
	if !ok {
		return nil, ErrPacked
	}
	return putTogether(b, key, payload, signature), nil
}

// The constant parts of a receipt, a DSSE envelope with one signature.
const (
	envelopeHead = `{"payloadType":"application/vnd.in-toto+json","payload":"`
	envelopeKey  = `","signatures":[{"keyid":"`
	envelopeSig  = `","sig":"`
	envelopeEnd  = `"}]}`
)

// takeApart splits a receipt, and reports whether putTogether restores the same bytes.
func takeApart(receipt []byte) (key, payload, signature []byte, ours bool) {
	text, head := strings.CutPrefix(string(receipt), envelopeHead)
	payload64, text, _ := strings.Cut(text, envelopeKey)
	id, text, _ := strings.Cut(text, envelopeSig)
	sig64, end := strings.CutSuffix(text, envelopeEnd)
	payload, err := base64.StdEncoding.DecodeString(payload64)
	if err == nil {
		signature, err = base64.StdEncoding.DecodeString(sig64)
	}
	whole := head && end && err == nil && len(signature) > len(asIs) && !strings.Contains(id, "\n")
	if !whole || !bytes.Equal(putTogether(nil, []byte(id), payload, signature), receipt) {
		return nil, nil, asIs, false
	}
	return []byte(id), payload, signature, true
}

// putTogether appends a receipt to b, made of its parts.
func putTogether(b, key, payload, signature []byte) []byte {
	b = base64.StdEncoding.AppendEncode(append(b, envelopeHead...), payload)
	b = append(append(append(b, envelopeKey...), key...), envelopeSig...)
	return append(base64.StdEncoding.AppendEncode(b, signature), envelopeEnd...)
}

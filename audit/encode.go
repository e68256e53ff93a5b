package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

const hashSize = sha256.Size

// domain begins what is hashed, so that a row's hash is never the hash of anything else.
const domain = "sandboxmcp audit row 1\n"

// sum is the hash that r must have.
func sum(r Row) [hashSize]byte {
	return sha256.Sum256(encode(r))
}

// encode gives every row, its hash aside, bytes that no other row has: the domain, the 32 bytes of
// Prev, Seq and the nanoseconds of Time as eight bytes each, big-endian, then Kind, Run, Namespace
// and Data, each behind its length, which is eight bytes too.
func encode(r Row) []byte {
	b := make([]byte, 0, 128+len(r.Kind)+len(r.Run)+len(r.Namespace)+len(r.Data))
	prev, _ := hex.DecodeString(r.Prev) // made from bytes, so it is hex
	return appendRow(b, prev, r.Seq, r.Time.UnixNano(), []byte(r.Kind), []byte(r.Run), []byte(r.Namespace), r.Data)
}

func appendRow(b, prev []byte, seq, nanos int64, texts ...[]byte) []byte {
	b = append(b, domain...)
	b = append(b, prev...)
	b = binary.BigEndian.AppendUint64(b, uint64(seq))
	b = binary.BigEndian.AppendUint64(b, uint64(nanos))
	for _, s := range texts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

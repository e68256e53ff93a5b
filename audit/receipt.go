package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/audit/pack"
)

// receiptKey is the key in a row's data for the hash of its receipt. It always comes first.
const receiptKey = "receipt_sha256"

const receiptPrefix = `{"` + receiptKey + `":"`

// addReceiptHash adds the hash of a receipt to the data of its row. Callers may not set that key.
func addReceiptHash(data json.RawMessage, receipt []byte) (json.RawMessage, error) {
	if bytes.Contains(data, []byte("receipt")) || bytes.Contains(data, []byte(`\u`)) {
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(data, &keys); err != nil {
			return nil, err
		}
		if _, ok := keys[receiptKey]; ok {
			return nil, fmt.Errorf("its data has the key %q, which is for the log", receiptKey)
		}
	}
	switch {
	case len(receipt) == 0:
		return data, nil
	case len(receipt) > pack.MaxReceipt:
		return nil, fmt.Errorf("its receipt has %d bytes, and %d is the limit", len(receipt), pack.MaxReceipt)
	}
	sum := sha256.Sum256(receipt)
	head := receiptPrefix + hex.EncodeToString(sum[:]) + `"`
	if rest := data[1:]; rest[0] != '}' {
		return json.RawMessage(head + "," + string(rest)), nil
	}
	return json.RawMessage(head + "}"), nil
}

// receiptHash returns the receipt's hash in the data of a row, or nil.
func receiptHash(data []byte) []byte {
	rest, ok := bytes.CutPrefix(data, []byte(receiptPrefix))
	if !ok || len(rest) < 2*hashSize {
		return nil
	}
	hash := make([]byte, hashSize)
	if _, err := hex.Decode(hash, rest[:2*hashSize]); err != nil {
		return nil
	}
	return hash
}

// ErrNoReceipt is the error of Receipt and RowWithReceipt for a run without a receipt in the log.
var ErrNoReceipt = errors.New("the log has no receipt of it")

// RowWithReceipt returns the row of a run's receipt, the newest if there are several, and that receipt, as Receipt
// does.
func (l *Log) RowWithReceipt(ctx context.Context, run string) (Row, []byte, error) {
	about, err := l.rowWithReceipt(ctx, run)
	if hash := hashRow(about.Row); err == nil && hex.EncodeToString(hash[:]) != about.Hash {
		err = fmt.Errorf("row %d was edited: see sandboxmcp audit verify", about.Seq)
	}
	if err != nil {
		return Row{}, nil, l.wrapFault("receipt of run "+quoteClipped(run)+" in", err)
	}
	return about.Row, about.receipt, nil
}

// Receipt returns the receipt of a run, byte for byte as it was appended, or the newest if there are several. It is
// checked against the hash in its row.
func (l *Log) Receipt(ctx context.Context, run string) ([]byte, error) {
	about, err := l.rowWithReceipt(ctx, run)
	if err != nil {
		return nil, l.wrapFault("receipt of run "+quoteClipped(run)+" in", err)
	}
	return about.receipt, nil
}

// rowWithReceipt returns the row of a run that has a receipt.
func (l *Log) rowWithReceipt(ctx context.Context, run string) (stored, error) {
	about, err := l.rowOfRun(ctx, run)
	switch sum := sha256.Sum256(about.receipt); {
	case err == nil && about.receipt == nil, err == errNothing:
		err = ErrNoReceipt
	case err == nil && !bytes.Equal(receiptHash(about.Data), sum[:]):
		err = fmt.Errorf("it is not the one that row %d came with: see sandboxmcp audit verify", about.Seq)
	}
	return about, err
}

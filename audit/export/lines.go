package export

import (
	"encoding/json"
	"io"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

// lines writes a JSON object a row, as the row marshals: with the hashes in it and its data byte for byte,
// so that the chain can be checked once more.
type lines struct{ w io.Writer }

func (l *lines) Row(r audit.Row) error { return writeLine(l.w, Sound(r)) }

func (l *lines) Close() error { return nil }

func writeLine(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Package export writes the rows of an audit log in formats for programs and people, one at a time, so that a log of
// any length needs the memory of a single row.
package export

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

// Writer writes rows in a format. After an error the Writer must not be used any more.
type Writer interface {
	Row(audit.Row) error
	Close() error // writes the end of the document; it does not close the underlying writer
}

// About describes an export.
type About struct {
	Version string    // of sandboxmcp
	Made    time.Time // when it was exported
	Scope   string    // description of the chosen rows; "" is all
}

// Formats returns the names of formats for New.
func Formats() []string { return []string{"jsonl", "csv", "html"} }

// New returns a writer to w of the named format, and may write its heading. w has a buffer if it needs one.
func New(format string, w io.Writer, a About) (Writer, error) {
	switch format {
	case "jsonl":
		return &jsonWriter{w}, nil
	case "csv":
		return newCSVWriter(w), nil
	case "html":
		return newHTMLWriter(w, a)
	}
	return nil, fmt.Errorf("export to %q: there is no such format", format)
}

// jsonWriter writes each row as a JSON object, with its hashes and its data byte for byte, so that the chain can be
// checked.
type jsonWriter struct{ w io.Writer }

func (l *jsonWriter) Row(r audit.Row) error {
	b, err := json.Marshal(WithValidData(r))
	if err != nil {
		return err
	}
	_, err = l.w.Write(append(b, '\n'))
	return err
}

func (l *jsonWriter) Close() error { return nil }

// WithValidData returns r with valid JSON as data, also if the stored data are not JSON any more.
func WithValidData(r audit.Row) audit.Row {
	if !json.Valid(r.Data) {
		r.Data, _ = json.Marshal(string(r.Data)) // text always marshals
	}
	return r
}

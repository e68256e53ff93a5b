// Package reader parses untrusted pages in a separate contained process, which reads a single page and has no other
// data.
//
// A question is a line of JSON followed by the body; the answer is JSON.
package reader

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sandboxmcp/sandboxmcp/cli/role"
	"github.com/sandboxmcp/sandboxmcp/egress/web/engine"
	"github.com/sandboxmcp/sandboxmcp/egress/web/page"
)

func init() {
	role.TakeOver(role.PageReader, func() int { return Serve(os.Stdin, os.Stdout) })
}

// MaxAnswer is the maximum size of an answer, in bytes: page.MaxText with each byte escaped.
const MaxAnswer = 6*page.MaxText + 1<<20

// Question is a body to read.
type Question struct {
	Engine string `json:"engine,omitempty"` // the search engine of a result page; "" for other pages
	URL    string `json:"url"`
	Type   string `json:"type"` // the header Content-Type
	Format string `json:"format,omitempty"`
	Cut    bool   `json:"cut,omitempty"`
	Body   []byte `json:"-"`
}

// Answer is the text or the results of a Question.
type Answer struct {
	Page    page.Page       `json:"page"`
	Results []engine.Result `json:"results,omitempty"`
	Error   string          `json:"error,omitempty"` // why an engine's page could not be parsed
}

// Read answers a question in this process. It accepts any body, and does not bound the time and memory of its parsers.
func Read(q Question) (a Answer) {
	if q.Engine == "" {
		a.Page = page.Read(page.Source{URL: q.URL, Type: q.Type, Format: q.Format, Body: q.Body, Cut: q.Cut})
		return a
	}
	var err error
	if a.Results, err = engine.Read(q.Engine, q.Body); err != nil {
		a.Error = err.Error()
	}
	return a
}

// Bytes returns the encoding of the question for a reader.
func (q Question) Bytes() ([]byte, error) {
	head, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	return append(append(head, '\n'), q.Body...), nil
}

// Parse parses a reader's answer. The page may control the reader: the answer is bounded and cleaned once more.
func Parse(b []byte) (a Answer, err error) {
	if len(b) > MaxAnswer {
		return a, fmt.Errorf("the reader's answer is larger than %d bytes", MaxAnswer)
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return Answer{}, errors.New("the reader's answer is malformed")
	}
	p := &a.Page
	p.Type, p.Title, p.Note = page.SingleLine(p.Type, 80), page.SingleLine(p.Title, 300), page.SingleLine(p.Note, 500)
	p.Canonical, p.Text, a.Error = page.SingleLine(p.Canonical, 2000), page.Clean(p.Text), page.SingleLine(a.Error, 500)
	for i := range a.Results {
		r := &a.Results[i]
		r.Title, r.URL, r.Summary = page.SingleLine(r.Title, 300), page.SingleLine(r.URL, 8000), page.SingleLine(r.Summary, 1000)
	}
	return a, nil
}

// Serve answers one question from in, and returns the exit code of the reader process.
func Serve(in io.Reader, out io.Writer) int {
	if err := serve(in, out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serve(in io.Reader, out io.Writer) error {
	all, err := io.ReadAll(bufio.NewReader(in))
	if err != nil {
		return err
	}
	head, body, ok := bytes.Cut(all, []byte("\n"))
	var q Question
	if err := json.Unmarshal(head, &q); err != nil || !ok {
		return errors.New("the question can't be understood")
	}
	q.Body = body
	return json.NewEncoder(out).Encode(Read(q))
}

package cli

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// pane is where what a session's code writes goes: through a filter where that is a terminal.
type pane struct {
	out, err *terminal.Filter
	line     *lineEnd // where stdout stands
}

func (p *program) pane() *pane {
	line := &lineEnd{w: p.Out, fresh: true}
	return &pane{line: line, out: &terminal.Filter{W: line, Open: !terminal.IsTerminal(p.Out)}, err: &terminal.Filter{W: p.Err, Open: !terminal.IsTerminal(p.Err)}}
}

// broken says that nobody reads the output any more.
func (s *pane) broken() error {
	s.line.mu.Lock()
	defer s.line.mu.Unlock()
	if errors.Is(s.line.failed, syscall.EPIPE) {
		return command.ErrNoReader
	}
	return s.line.failed
}

// lineEnd knows whether what was written ended with a line.
type lineEnd struct {
	w      io.Writer
	mu     sync.Mutex
	fresh  bool
	failed error
}

func (l *lineEnd) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := bytes.TrimSuffix(b, []byte("\x1b[0m")); len(text) > 0 { // which the filter ends with
		l.fresh = text[len(text)-1] == '\n'
	}
	n, err := l.w.Write(b)
	if l.failed == nil {
		l.failed = err
	}
	return n, err
}

// showCell prints what a cell showed beside its output: displays, its value, its error.
func (p *program) showCell(res pipeline.Result, s *pane, saved string) error {
	var text strings.Builder
	for _, b := range append(slices.Clone(res.Displays), res.Value) {
		text.WriteString(inText(b, saved))
	}
	if text.Len() > 0 && !s.line.fresh {
		io.WriteString(s.out, "\n")
	}
	_, err := io.WriteString(s.out, text.String())
	if e := res.Error; e != nil {
		text := e.Traceback
		if text == "" {
			text = e.Error()
		}
		io.WriteString(s.err, strings.TrimRight(text, "\n")+"\n")
	}
	return errors.Join(err, s.out.Close(), s.err.Close())
}

// inText is a bundle for people: its text, and a line about what a terminal can't show.
func inText(b kernel.Bundle, saved string) string {
	var text string
	if plain, ok := b["text/plain"]; ok {
		text = strings.TrimRight(plain, "\n") + "\n"
	}
	for _, kind := range slices.Sorted(maps.Keys(b)) {
		switch {
		case pictures[kind] != "" && saved == "":
			text += fmt.Sprintf("(a picture was made, %s; --artifacts DIR saves it)\n", kind)
		case pictures[kind] != "":
			text += fmt.Sprintf("(a picture was made, %s, and is in %s)\n", kind, saved)
		case b["text/plain"] == "" && text == "":
			text += fmt.Sprintf("(%s, %d bytes)\n", kind, len(b[kind]))
		}
	}
	return text
}

// pictures are the kinds of what is saved, and how their files end.
var pictures = map[string]string{"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg", "application/pdf": ".pdf"}

// savePictures saves what a cell showed as new files, whose names begin with the run's id.
func savePictures(dir string, res pipeline.Result) error {
	n := 0
	for _, b := range append(slices.Clone(res.Displays), res.Value) {
		for _, kind := range slices.Sorted(maps.Keys(b)) {
			extension := pictures[kind]
			if extension == "" {
				continue
			}
			data := []byte(b[kind])
			if kind != "image/svg+xml" {
				var err error
				if data, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(b[kind]), "")); err != nil {
					return fmt.Errorf("a picture can't be saved: what the code showed is no %s", kind)
				}
			}
			n++
			name := filepath.Join(dir, fmt.Sprintf("%s-%d%s", res.ID, n, extension))
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
			if err != nil {
				return fmt.Errorf("save a picture: %w", err)
			}
			_, err = f.Write(data)
			if err := errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("save a picture: %w", err)
			}
		}
	}
	return nil
}

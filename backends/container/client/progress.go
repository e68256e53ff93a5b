package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/moby/moby/api/types/jsonstream"

	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// PrintProgress reads an engine's messages about a pull or a build, passes lines for people to progress, and returns
// the final error, if any. progress may be nil.
func PrintProgress(r io.Reader, progress func(string)) error {
	p := printer{emit: progress, layers: map[string]jsonstream.Progress{}, status: map[string]string{}}
	if progress == nil {
		p.emit = func(string) {}
	}
	var failed error
	for d := json.NewDecoder(r); ; {
		var m struct {
			jsonstream.Message
			ErrorText string `json:"error"` // sent instead of Error, or with it
		}
		err := d.Decode(&m)
		switch {
		case errors.Is(err, io.EOF):
			p.flush()
			return failed
		case err != nil:
			return fmt.Errorf("read progress: %w", err)
		case m.Error != nil:
			failed = errors.New(engine.Shorten(m.Error.Message))
		case m.ErrorText != "":
			failed = errors.New(engine.Shorten(m.ErrorText))
		}
		p.printMessage(m.Message)
	}
}

// printer turns messages into lines.
type printer struct {
	emit     func(string)
	partial  string                         // unfinished line of a build
	layers   map[string]jsonstream.Progress // layers in progress
	status   map[string]string              // last status by layer
	reported time.Time                      // when the total was last printed
}

func (p *printer) printMessage(m jsonstream.Message) {
	p.printOutput(m.Stream)
	switch {
	case m.Status == "":
	case m.Progress != nil && m.Progress.Total > 0 && m.Status == "Downloading":
		p.layers[m.ID] = *m.Progress
		p.emitTotal()
	case m.ID == "":
		p.emitLine(m.Status)
	case m.Status == "Downloading" || m.Status == "Extracting" || m.Status == "Waiting" ||
		m.Status == "Verifying Checksum" || p.status[m.ID] == m.Status:
		// Too frequent, or not relevant for people.
	default:
		p.status[m.ID] = m.Status
		if l, ok := p.layers[m.ID]; ok && (m.Status == "Download complete" || m.Status == "Pull complete") {
			l.Current = l.Total
			p.layers[m.ID] = l
		}
		p.emitLine(m.ID + ": " + m.Status)
	}
}

// emitTotal prints the progress of all layers, once a second.
func (p *printer) emitTotal() {
	if time.Since(p.reported) < time.Second {
		return
	}
	p.reported = time.Now()
	var have, want int64
	for _, l := range p.layers {
		have, want = have+l.Current, want+l.Total
	}
	p.emitLine(fmt.Sprintf("downloaded %.1f of %.1f MB", float64(have)/1e6, float64(want)/1e6))
}

// printOutput prints the output of a build, which arrives in pieces.
func (p *printer) printOutput(s string) {
	p.partial += s
	for {
		end := strings.IndexAny(p.partial, "\r\n")
		if end < 0 {
			break
		}
		p.emitLine(p.partial[:end])
		p.partial = p.partial[end+1:]
	}
	if len(p.partial) > engine.Longest {
		p.flush()
	}
}

// flush prints an unfinished line.
func (p *printer) flush() {
	line := p.partial
	p.partial = ""
	p.emitLine(line)
}

func (p *printer) emitLine(s string) {
	if s = engine.OneLine(s); s != "" {
		p.emit(s)
	}
}

package docker

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

// report reads what the engine says while it pulls or builds, gives people lines of it, and returns the
// error with which it ended, if it did.
func report(r io.Reader, progress func(string)) error {
	p := printer{emit: progress, layers: map[string]jsonstream.Progress{}, said: map[string]string{}}
	if progress == nil {
		p.emit = func(string) {}
	}
	d := json.NewDecoder(r)
	for {
		var m struct {
			jsonstream.Message
			Plain string `json:"error"` // what engines say instead of Error, or beside it
		}
		err := d.Decode(&m)
		if errors.Is(err, io.EOF) {
			p.end()
			return nil
		}
		if err != nil {
			return fmt.Errorf("read progress: %w", err)
		}
		if m.Error != nil {
			return errors.New(engine.Plain(m.Error.Message))
		}
		if m.Plain != "" {
			return errors.New(engine.Plain(m.Plain))
		}
		p.message(m.Message)
	}
}

// printer makes lines of messages.
type printer struct {
	emit   func(string)
	partly string                         // of a line of a build
	layers map[string]jsonstream.Progress // being fetched
	said   map[string]string              // last status by layer
	shown  time.Time                      // when the sum of all was said last
}

func (p *printer) message(m jsonstream.Message) {
	p.stream(m.Stream)
	switch {
	case m.Status == "":
	case m.Progress != nil && m.Progress.Total > 0 && m.Status == "Downloading":
		p.layers[m.ID] = *m.Progress
		p.sum()
	case m.ID == "":
		p.line(m.Status)
	case m.Status == "Downloading" || m.Status == "Extracting" || m.Status == "Waiting" ||
		m.Status == "Verifying Checksum" || p.said[m.ID] == m.Status:
		// Said many times a second, or of no interest.
	default:
		p.said[m.ID] = m.Status
		if l, ok := p.layers[m.ID]; ok && (m.Status == "Download complete" || m.Status == "Pull complete") {
			l.Current = l.Total
			p.layers[m.ID] = l
		}
		p.line(m.ID + ": " + m.Status)
	}
}

// sum says how much of all layers has come, once a second.
func (p *printer) sum() {
	if time.Since(p.shown) < time.Second {
		return
	}
	p.shown = time.Now()
	var have, want int64
	for _, l := range p.layers {
		have, want = have+l.Current, want+l.Total
	}
	p.line(fmt.Sprintf("downloaded %.1f of %.1f MB", float64(have)/1e6, float64(want)/1e6))
}

// stream takes what a build prints, in pieces.
func (p *printer) stream(s string) {
	p.partly += s
	for {
		line, rest, ok := strings.Cut(p.partly, "\n")
		if !ok {
			if len(line) > engine.Longest {
				p.end()
			}
			return
		}
		p.partly = rest
		p.line(line)
	}
}

// end says what is left of a line.
func (p *printer) end() {
	line := p.partly
	p.partly = ""
	p.line(line)
}

func (p *printer) line(s string) {
	if s = engine.Plain(s); s != "" {
		p.emit(s)
	}
}

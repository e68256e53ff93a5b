package bench

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
)

// cold makes sandboxes in this process with all layers, each from namespaces that were made ahead, as a server does whose pool is
// off: what contains, without server, log and receipt.
type cold struct{ backend *process.Backend }

func newCold(dir string) cold { return cold{process.New(process.Config{StateDir: dir, Ahead: 1})} }

func (c cold) close() { c.backend.Close() }

// program returns what a way does that runs a program in a sandbox of its own, from Start to the end of Close.
func (c cold) program(p *Program) func(context.Context) (Answer, error) {
	return func(ctx context.Context) (Answer, error) {
		s, err := c.backend.Start(ctx, backends.Spec{ID: "bench", Language: p.Language, Require: backends.ContainmentLayers})
		if err != nil {
			return Answer{}, err
		}
		defer s.Close()
		if err := s.Files().Put(p.file, 0o644, strings.NewReader(p.Code+"\n")); err != nil {
			return Answer{}, err
		}
		var out, stderr bytes.Buffer
		r, err := s.Exec(ctx, backends.Command{Args: []string{filepath.Base(p.Typed[0]), p.file}}, backends.Streams{Stdout: &out, Stderr: &stderr})
		if err == nil && r.Ended != backends.EndedOK {
			err = fmt.Errorf("it ended with %s: %s", r.Ended, lastLine(stderr.String()))
		}
		return Answer{Out: out.String()}, cmp.Or(err, s.Close())
	}
}

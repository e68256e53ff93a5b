package podman

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// printProgress reads Podman's messages while it works, a sequence of JSON objects, and gives lines to people. The last
// object can be an error.
func printProgress(from io.Reader, progress func(line string)) error {
	var partial string
	var failed error
	for d := json.NewDecoder(from); ; {
		var report struct{ Stream, Error string }
		err := d.Decode(&report)
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("read podman's answer: %w", err)
		}
		if report.Error != "" {
			failed = errors.New(shorten(report.Error))
		}
		pieces := strings.FieldsFunc(partial+report.Stream+"\x00", func(r rune) bool { return r == '\n' || r == '\r' })
		partial = strings.TrimSuffix(pieces[len(pieces)-1], "\x00")
		for _, line := range pieces[:len(pieces)-1] {
			emitLine(progress, line)
		}
	}
	emitLine(progress, partial)
	return failed
}

// emitLine gives a line to people.
func emitLine(progress func(line string), line string) {
	if line = engine.Plain(line); line != "" && progress != nil {
		progress(line)
	}
}

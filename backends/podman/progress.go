package podman

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// follow reads what Podman says while it works, a JSON object after the other, and gives lines to
// people. The last object can be why it failed.
func follow(from io.Reader, progress func(line string)) error {
	var rest string
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
		pieces := strings.FieldsFunc(rest+report.Stream+"\x00", func(r rune) bool { return r == '\n' || r == '\r' })
		rest = strings.TrimSuffix(pieces[len(pieces)-1], "\x00")
		for _, line := range pieces[:len(pieces)-1] {
			say(progress, line)
		}
	}
	say(progress, rest)
	return failed
}

// say gives a line to people.
func say(progress func(line string), line string) {
	if line = engine.Plain(line); line != "" && progress != nil {
		progress(line)
	}
}

package leakcheck

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

// outcome is all collected output, by place.
type outcome struct {
	sync.Mutex
	texts []captured
}

type captured struct{ from, where, text string } // from is the encoding, or "" for all

func (o *outcome) append(from, where, text string) {
	o.Lock()
	defer o.Unlock()
	o.texts = append(o.texts, captured{from, where, text})
}

// collect collects all text in a value, by way of its JSON.
func (b *bench) collect(from, how, id string, v any) {
	b.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		b.Fatal(err)
	}
	var any map[string]any
	if err := json.Unmarshal(text, &any); err != nil {
		b.Fatal(err)
	}
	for key, part := range any {
		var out strings.Builder
		flatten(&out, part)
		b.outcome.append(from, how+" "+key, out.String())
	}
	if id == "" {
		return
	}
	b.runs.Store(id, from)
	for row, err := range b.audit.Rows(context.Background(), audit.Filter{Run: id}) {
		if err != nil {
			b.Fatal(err)
		}
		b.outcome.append(from, how+" row "+row.Kind, fromJSON(row.Data))
	}
}

// flatten writes all keys and strings, each on a line.
func flatten(out *strings.Builder, v any) {
	switch v := v.(type) {
	case string:
		out.WriteString(v + "\n")
	case []any:
		for _, e := range v {
			flatten(out, e)
		}
	case map[string]any:
		for k, e := range v {
			out.WriteString(k + "\n")
			flatten(out, e)
		}
	default:
		fmt.Fprintln(out, v)
	}
}

func fromJSON(text []byte) string {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return string(text)
	}
	var out strings.Builder
	flatten(&out, v)
	return out.String()
}

// encodingOf returns the encoding that the run in a name used.
func (b *bench) encodingOf(name string) (from string) {
	b.runs.Range(func(id, encoding any) bool {
		if strings.Contains(name, id.(string)) {
			from = encoding.(string)
		}
		return from == ""
	})
	return from
}

// collectFiles collects the names, link targets and contents of all files below a directory.
func (b *bench) collectFiles(from, where, dir string) {
	b.Helper()
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			b.Errorf("%s: %v", where, err)
			return nil
		}
		name, _ := filepath.Rel(dir, path)
		from := from
		if from == "" {
			from = b.encodingOf(name)
		}
		b.outcome.append(from, where+" name", name)
		switch {
		case d.Type()&os.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			b.outcome.append(from, where+" link", to)
		case d.Type().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				b.Error(err)
			}
			b.outcome.append(from, where+" content", string(content))
		}
		return nil
	})
}

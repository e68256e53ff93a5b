package validate

import (
	"errors"
	"path"
	"strings"
	utf "unicode/utf16"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/go-sourcemap/sourcemap"
)

// inspectNode inspects JavaScript, and TypeScript translated to JavaScript. name is the file name that the script runs
// under.
func (j job) inspectNode(name string) findings {
	source, module := string(j.Source), path.Ext(name) == ".mjs"
	original := func(at int) int { return at }
	if j.TypeScript || j.Lower {
		lowered, at, err := lower(source, j.TypeScript)
		if err != nil {
			return findings{Unread: err.Error()}
		}
		source, original = lowered, at
	}
	tree, err := parseJS(source, module)
	if err != nil {
		return findings{Lower: !j.TypeScript && !j.Lower, Unread: err.Error()}
	}
	p := programOf(tree)
	hits, whole := p.dangers()
	f := findings{Hits: hits, Missing: p.missing(module, j.Known), Insert: importGap(string(j.Source))}
	if !whole {
		f.Unread = "there is too much in it"
	}
	for i := range f.Hits {
		f.Hits[i].At = original(f.Hits[i].At)
	}
	for i := range f.Missing {
		f.Missing[i].At = max(0, original(f.Missing[i].At))
	}
	return f
}

// lower translates syntax that goja's parser does not know to older syntax, and TypeScript to JavaScript. The returned
// function maps an offset to the source, or to -1 if the source has no such place: esbuild reports places only in a
// source map, which go-sourcemap reads.
func lower(source string, typescript bool) (string, func(int) int, error) {
	o := api.TransformOptions{
		Loader: api.LoaderJS, Target: api.ESNext, Sourcemap: api.SourceMapExternal, LegalComments: api.LegalCommentsNone,
		Supported: map[string]bool{"decorators": false, "using": false, "async-generator": false, "for-await": false},
	}
	if typescript {
		o.Loader = api.LoaderTS
	}
	r := api.Transform(source, o)
	if len(r.Errors) > 0 {
		return "", nil, errUnreadable
	}
	places, err := sourcemap.Parse("", r.Map)
	if err != nil {
		return "", nil, errors.New("its source map can't be read")
	}
	lowered := string(r.Code)
	return lowered, func(at int) int {
		line, column := position(lowered, at)
		_, _, line, column, ok := places.Source(line, column)
		if !ok {
			return -1
		}
		return unposition(source, line, column)
	}, nil
}

// position returns a line from 1 and a column from 0 in UTF-16, as source maps count.
func position(text string, at int) (line, column int) {
	before := text[:min(max(at, 0), len(text))]
	from := strings.LastIndexByte(before, '\n') + 1
	return 1 + strings.Count(before, "\n"), len(utf.Encode([]rune(before[from:])))
}

func unposition(text string, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		n := strings.IndexByte(text[at:], '\n')
		if n < 0 {
			return len(text)
		}
		at += n + 1
	}
	for column > 0 && at < len(text) {
		r, n := utf8.DecodeRuneInString(text[at:])
		at += n
		column -= max(1, utf.RuneLen(r))
	}
	return at
}

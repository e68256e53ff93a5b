package validate

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"
	utf "unicode/utf16"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"
)

// inspectNode inspects JavaScript, and TypeScript. name is the file name that the script runs under.
func (j job) inspectNode(name string) findings {
	source := string(j.Source)
	plain, original, err := canonical(source, j.TypeScript)
	if err != nil {
		// In a function, await is an ordinary name, and new.target is allowed.
		wrapped := "(function () {\n" + source + "\n});"
		if rest, is := strings.CutPrefix(source, "#!"); is {
			wrapped = "(function () {\n//" + rest + "\n});"
		}
		var at func(int) int
		if plain, at, err = canonical(wrapped, j.TypeScript); err != nil {
			return findings{Unread: err.Error()}
		}
		original = func(i int) int { return at(i) - strings.IndexByte(wrapped, '\n') - 1 }
	}
	p := programOf(plain)
	hits, whole := p.dangers()
	f := findings{Insert: importGap(source)}
	if !whole {
		f.Unread = "there is too much in it"
	}
	for _, h := range hits {
		if h.At = original(h.At); h.At >= 0 { // else it stands in what esbuild adds
			f.Hits = append(f.Hits, h)
		}
	}
	for _, m := range p.missing(path.Ext(name) == ".mjs", j.Known) {
		m.At = max(0, original(m.At))
		f.Missing = append(f.Missing, m)
	}
	return f
}

// canonical translates TypeScript and JavaScript to JavaScript in esbuild's spelling, in which tokens tell what a parser
// would: without types, templates and arrow functions. The returned function maps an offset to the source, or to -1 if
// the source has no such place: esbuild reports places only in a source map.
func canonical(source string, typescript bool) (string, func(int) int, error) {
	o := api.TransformOptions{
		Loader: api.LoaderJS, Target: api.ESNext, Charset: api.CharsetUTF8, Sourcemap: api.SourceMapExternal, LegalComments: api.LegalCommentsNone,
		Supported: map[string]bool{"decorators": false, "using": false, "arrow": false, "template-literal": false},
	}
	if typescript {
		o.Loader = api.LoaderTS
	}
	r := api.Transform(source, o)
	if len(r.Errors) > 0 {
		return "", nil, errors.New("our parser does not know all of its syntax")
	}
	var m struct{ Mappings string }
	if err := json.Unmarshal(r.Map, &m); err != nil {
		return "", nil, fmt.Errorf("read esbuild's source map: %w", err)
	}
	plain, places := string(r.Code), mappings(m.Mappings)
	return plain, func(at int) int {
		line, column := position(plain, at)
		i := sort.Search(len(places), func(i int) bool {
			return places[i].line > line || places[i].line == line && places[i].column > column
		})
		if i > 0 && places[i-1].line == line || i == len(places) || places[i].line != line {
			i-- // not the parenthesis at the beginning of a line, which has no place
		}
		if i < 0 {
			return -1
		}
		return unposition(source, places[i].sourceLine, places[i].sourceColumn)
	}, nil
}

// mapping is a place of esbuild's output, with the place of the source that it comes from.
type mapping struct{ line, column, sourceLine, sourceColumn int }

// mappings decodes a source map: for each place up to five numbers, as differences to those before, in digits of 5 bits.
func mappings(text string) []mapping {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	var out []mapping
	var sums [5]int
	line, field, value, shift := 1, 0, 0, 0
	for _, c := range []byte(text + ";") {
		switch digit := strings.IndexByte(digits, c); {
		case digit < 0: // , or ;
			// esbuild repeats a place at the beginning of a line that has none there.
			again := len(out) > 0 && sums[0] == 0 && out[len(out)-1].sourceLine == sums[2]+1 && out[len(out)-1].sourceColumn == sums[3]
			if field >= 4 && !again {
				out = append(out, mapping{line, sums[0], sums[2] + 1, sums[3]})
			}
			if field = 0; c == ';' {
				line, sums[0] = line+1, 0
			}
		case digit >= 32:
			value |= digit % 32 << shift
			shift += 5
		case field < len(sums):
			value |= digit << shift
			sums[field] += value >> 1 * (1 - 2*(value&1))
			field, value, shift = field+1, 0, 0
		}
	}
	return out
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

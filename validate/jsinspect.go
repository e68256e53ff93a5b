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

// inspectNode inspects JavaScript, and TypeScript, that runs under a name. It is plain, or else has an error.
func (j job) inspectNode(name string, plain canonical, err error) findings {
	source := string(j.Source)
	shift := 0
	if err != nil {
		wrapped := inFunction(source, "")
		shift = len(wrapped) - len(functionEnd) - len(source)
		if plain, err = canonicalOf(wrapped, j.TypeScript); err != nil {
			return findings{Unread: err.Error()}
		}
	}
	p := programOf(plain.text)
	hits, whole := p.dangers()
	f := findings{Insert: importGap(source)}
	if !whole {
		f.Unread = "there is too much in it"
	}
	for _, h := range hits {
		if h.At = plain.original(h.At) - shift; h.At >= 0 { // else it stands in what esbuild adds
			f.Hits = append(f.Hits, h)
		}
	}
	for _, m := range p.missing(path.Ext(name) == ".mjs", j.Known) {
		m.At = max(0, plain.original(m.At)-shift)
		f.Missing = append(f.Missing, m)
	}
	return f
}

// canonical is JavaScript in esbuild's spelling, in which tokens tell what a parser would: without types, templates and
// arrow functions.
type canonical struct {
	text, source string
	places       []mapping // esbuild reports places only in a source map
}

// canonicalOf translates TypeScript and JavaScript.
func canonicalOf(source string, typescript bool) (canonical, error) {
	o := api.TransformOptions{
		Loader: api.LoaderJS, Target: api.ESNext, Charset: api.CharsetUTF8, Sourcemap: api.SourceMapExternal, LegalComments: api.LegalCommentsNone,
		Supported: map[string]bool{"decorators": false, "using": false, "arrow": false, "template-literal": false},
	}
	if typescript {
		o.Loader = api.LoaderTS
	}
	r := api.Transform(source, o)
	if len(r.Errors) > 0 {
		return canonical{}, errors.New("our parser does not know all of its syntax")
	}
	var m struct{ Mappings string }
	if err := json.Unmarshal(r.Map, &m); err != nil {
		return canonical{}, fmt.Errorf("read esbuild's source map: %w", err)
	}
	return canonical{string(r.Code), source, mappings(m.Mappings)}, nil
}

// original returns the offset in the source of an offset in the text, or -1 if the source has no such place.
func (c canonical) original(at int) int {
	line, column := position(c.text, at)
	i := sort.Search(len(c.places), func(i int) bool {
		return c.places[i].line > line || c.places[i].line == line && c.places[i].column > column
	})
	if i > 0 && c.places[i-1].line == line || i == len(c.places) || c.places[i].line != line {
		i-- // not the parenthesis at the beginning of a line, which has no place
	}
	if i < 0 {
		return -1
	}
	return unposition(c.source, c.places[i].sourceLine, c.places[i].sourceColumn)
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

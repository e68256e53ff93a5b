package vault

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxEnvFile is the maximum size of a .env file, in bytes.
const MaxEnvFile = 1 << 20

const maxVariables = 1000 // far more than real files have

// EnvVariable is a variable of a .env file, of one line or several.
type EnvVariable struct {
	Name  string
	Value []byte
	Line  int // the first is 1

	// Expands is set where other programs would put a variable's value in the place of a $ and a name in it.
	Expands bool
}

// ReadEnvFile returns the variables that a .env file sets. godotenv is not used: it always expands $NAME, which changes
// a password that has a $ in it. A value is taken literally. A spelling that other programs read differently is an
// error, which never quotes the value:
//
//	KEY=value # after white space, a comment   white space around a value is dropped
//	KEY='it is $5'                             literal, may have many lines
//	KEY="one\ntwo"                             \n \r \t \" \\ and \$ are the usual escapes, others are an error
//	export KEY=value                           as without export
//
// A $ stays a $. A line may end in CR LF, and the file may begin with a byte order mark.
func ReadEnvFile(text []byte) ([]EnvVariable, error) {
	if len(text) > MaxEnvFile {
		return nil, fmt.Errorf("it has more than %d bytes", MaxEnvFile)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	p := envParser{text: bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), line: 1}
	defer clear(p.text)
	var found []EnvVariable
	for p.skipBlankLines() {
		if len(found) == maxVariables {
			return nil, fmt.Errorf("it sets more than %d variables", maxVariables)
		}
		at := p.line
		v, err := p.parseVariable()
		if err == nil {
			if i := slices.IndexFunc(found, func(other EnvVariable) bool { return other.Name == v.Name }); i >= 0 {
				err = fmt.Errorf("%s was set in line %d already", v.Name, found[i].Line)
			}
		}
		if err != nil {
			wipeVariables(append(found, v))
			return nil, fmt.Errorf("line %d: %w", at, err)
		}
		found = append(found, v)
	}
	if len(p.bad) > 0 {
		wipeVariables(found)
		return nil, fmt.Errorf("not valid names of secrets: %s: use letters, digits and _, not a digit first", strings.Join(p.bad, ", "))
	}
	return found, nil
}

func wipeVariables(all []EnvVariable) {
	for _, v := range all {
		clear(v.Value)
	}
}

type envParser struct {
	text []byte   // not parsed yet
	line int      // of the first byte of text
	bad  []string // names that can't be those of secrets, and where they are
}

// looksLikeName reports whether the text before a = is meant as a name, and may be shown. It could also be a line of a
// base64 key whose quote was forgotten.
func looksLikeName(name string, after []byte) bool {
	ok := func(c byte) bool { return isWord(c) || c == '-' || c == '.' }
	after = bytes.Trim(after, blanks+"=")
	return name != "" && len(name) <= 40 && allBytes(name, ok) && len(after) > 0
}

// skipBlankLines skips blank lines and comments.
func (p *envParser) skipBlankLines() bool {
	for len(p.text) > 0 {
		line, rest, _ := bytes.Cut(p.text, []byte("\n"))
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return true
		}
		p.text, p.line = rest, p.line+1
	}
	return false
}

func (p *envParser) parseVariable() (EnvVariable, error) {
	line, _, _ := bytes.Cut(p.text, []byte("\n"))
	before, _, ok := bytes.Cut(line, []byte("="))
	if !ok {
		return EnvVariable{}, errors.New("it has no =")
	}
	name := strings.Trim(string(before), blanks)
	if word, rest, two := strings.Cut(name, " "); two && word == "export" {
		name = strings.Trim(rest, blanks)
	}
	v := EnvVariable{Name: name, Line: p.line}
	if err := checkKey(name); err != nil {
		if !looksLikeName(name, line[len(before)+1:]) {
			return EnvVariable{}, err
		}
		p.bad = append(p.bad, fmt.Sprintf("%s in line %d", name, p.line))
	}
	p.text = bytes.TrimLeft(p.text[len(before)+1:], blanks)
	var err error
	switch {
	case bytes.HasPrefix(p.text, []byte("'")):
		v.Value, err = p.parseSingleQuoted()
	case bytes.HasPrefix(p.text, []byte(`"`)):
		v.Value, v.Expands, err = p.parseDoubleQuoted()
	case bytes.HasPrefix(p.text, []byte("`")):
		err = errors.New("a value in backquotes is something else in each program: use ' or \"")
	default:
		v.Value = p.parseUnquoted()
		v.Expands = hasReference(v.Value)
	}
	if err == nil {
		err = p.expectLineEnd()
	}
	return v, err
}

const blanks = " \t"

// parseUnquoted is a value without quotes: the rest of the line, without a comment.
func (p *envParser) parseUnquoted() []byte {
	value, _, _ := bytes.Cut(p.text, []byte("\n"))
	n := len(value)
	for i, c := range value {
		if c == '#' && (i == 0 || strings.IndexByte(blanks, value[i-1]) >= 0) {
			value = value[:i]
			break
		}
	}
	p.text = p.text[n:]
	return bytes.Clone(bytes.TrimRight(value, blanks))
}

var errUnclosedQuote = errors.New("the opening quote is not closed")

func (p *envParser) parseSingleQuoted() ([]byte, error) {
	end := bytes.IndexByte(p.text[1:], '\'')
	if end < 0 {
		return nil, errUnclosedQuote
	}
	value := bytes.Clone(p.text[1 : 1+end])
	p.advance(end + 2)
	return value, nil
}

func (p *envParser) parseDoubleQuoted() (value []byte, dollar bool, err error) {
	end := 1
	for ; end < len(p.text) && p.text[end] != '"'; end++ {
		if p.text[end] == '\\' {
			end++
		}
	}
	if end >= len(p.text) {
		return nil, false, errUnclosedQuote
	}
	value = make([]byte, 0, end) // allocated once, so that growing leaves no copies
	for i := 1; i < end; i++ {
		c := p.text[i]
		switch c {
		case '$':
			dollar = dollar || hasReference(p.text[i:end])
		case '\\':
			i++
			at := strings.IndexByte(`nrt"\$`, p.text[i])
			if at < 0 {
				clear(value)
				return nil, false, errors.New(`a \ and what follows it in "..." is not the same to all programs: write \\ for a \, or put the value in '...'`)
			}
			c = "\n\r\t\"\\$"[at]
		}
		value = append(value, c)
	}
	p.advance(end + 1)
	return value, dollar, nil
}

// advance goes over n bytes of a value.
func (p *envParser) advance(n int) {
	p.line += bytes.Count(p.text[:n], []byte("\n"))
	p.text = p.text[n:]
}

// expectLineEnd refuses anything but a comment in the rest of the line.
func (p *envParser) expectLineEnd() error {
	rest, after, _ := bytes.Cut(p.text, []byte("\n"))
	if trimmed := bytes.Trim(rest, blanks); len(trimmed) > 0 && (trimmed[0] != '#' || len(rest) == len(bytes.TrimLeft(rest, blanks))) {
		return errors.New("unexpected text after the closing quote")
	}
	p.text = after
	p.line++
	return nil
}

// hasReference reports whether a value contains a $ and a name.
func hasReference(value []byte) bool {
	for i, c := range value {
		if c == '$' && i+1 < len(value) && (value[i+1] == '{' || value[i+1] == '_' || 'a' <= value[i+1]|0x20 && value[i+1]|0x20 <= 'z') {
			return true
		}
	}
	return false
}

package page

import (
	"strings"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

// codeView is code, line by line.
type codeView struct {
	control.Code
	Lines []codeLine
	Left  int64 // bytes not shown
}

type codeLine struct {
	N       int // 0 continues the previous line
	Text    string
	Dangers []danger
}

type danger struct{ Severity, Reason string }

// Bounds of the displayed code. People decide by it, so omitted parts are reported.
const (
	maxLines = 5000
	maxLine  = 2000      // bytes; a longer line continues in the next row
	maxCode  = 512 << 10 // bytes
)

// marked adds dangerous places to their lines.
func marked(c control.Code) *codeView {
	v := &codeView{Code: c}
	size := 0
	for i, line := range strings.Split(strings.TrimSuffix(c.Code, "\n"), "\n") {
		for first := true; first || line != ""; first = false {
			if len(v.Lines) == maxLines || size >= maxCode {
				return v.leaveOut(size, i)
			}
			piece := whole(line, maxLine)
			one := codeLine{Text: safetext.Text(piece)}
			if first {
				one.N, one.Dangers = i+1, dangersAt(c, func(n int) bool { return n == i+1 || n == 0 && i == 0 })
			}
			v.Lines, line, size = append(v.Lines, one), line[len(piece):], size+len(piece)
		}
		size++ // its end
	}
	return v
}

// leaveOut reports the omitted bytes from a line on, and adds the dangers there to the last displayed line.
func (v *codeView) leaveOut(size, line int) *codeView {
	last := &v.Lines[len(v.Lines)-1]
	last.Dangers = append(last.Dangers, dangersAt(v.Code, func(n int) bool { return n > line })...)
	v.Left = int64(len(v.Code.Code) - size)
	return v
}

func dangersAt(c control.Code, at func(line int) bool) (list []danger) {
	for _, d := range c.Dangers {
		if at(d.Line) {
			list = append(list, danger{d.Severity, safetext.Line(d.Reason)})
		}
	}
	return list
}

// whole returns at most size bytes from the beginning of a text, without cutting a character if possible.
func whole(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for back := 0; back < utf8.UTFMax && !utf8.RuneStart(text[size]); back++ {
		size--
	}
	return text[:size]
}

package validate

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsToken is a word, a string, a number, a regular expression or an operator.
type jsToken struct {
	kind byte   // 'w', 's', 'n', 'r' or 'o'
	text string // of a string its value
	at   int    // its byte offset
	pair int    // the index of the bracket that belongs to this bracket, else -1

	operand bool // an operand ends before it
}

// jsOperand lists the keywords after which an expression begins: what follows them is no member, call or division.
var jsOperand = strings.Fields("await case delete do else extends in instanceof new of return throw typeof void yield")

// jsControl lists the keywords whose parentheses are neither a call's nor a function's parameters.
var jsControl = strings.Fields("if for while switch with catch")

// tokensJS splits JavaScript as esbuild prints it: with blanks around operators, with a line for each statement, and
// without templates.
func tokensJS(source string) []jsToken {
	var all []jsToken
	var open []int
	for at := skipJS(source, 0); at < len(source); {
		operand := operandEnds(all, source, at)
		t, end := tokenJS(source, at, operand)
		t.at, t.pair, t.operand = at, -1, operand
		switch t.text {
		case "(", "[", "{":
			if t.kind == 'o' {
				open = append(open, len(all))
			}
		case ")", "]", "}":
			if n := len(open) - 1; t.kind == 'o' && n >= 0 {
				t.pair, all[open[n]].pair = open[n], len(all)
				open = open[:n]
			}
		}
		all = append(all, t)
		at = skipJS(source, end)
	}
	return all
}

// skipJS returns the offset of the next token.
func skipJS(source string, at int) int {
	for at < len(source) {
		rest := source[at:]
		end := -1
		switch {
		case strings.HasPrefix(rest, "//") || strings.HasPrefix(rest, "#!"):
			end = strings.IndexAny(rest, "\r\n")
		case strings.HasPrefix(rest, "/*"):
			if end = strings.Index(rest[2:], "*/"); end >= 0 {
				end += 4
			}
		case strings.HasPrefix(rest, "\ufeff"), strings.HasPrefix(rest, "\u00a0"):
			_, end = utf8.DecodeRuneInString(rest)
		case strings.IndexByte(" \t\r\n\v\f", rest[0]) >= 0:
			end = 1
		default:
			return at
		}
		if end < 0 {
			return len(source)
		}
		at += end
	}
	return at
}

// tokenJS reads the token at an offset, and returns the offset of its end. A slash behind an operand divides.
func tokenJS(source string, at int, operand bool) (t jsToken, end int) {
	rest := source[at:]
	kind, n := byte('o'), 1
	switch c := rest[0]; {
	case c == '"' || c == '\'':
		n = closingQuote(rest)
		return jsToken{kind: 's', text: stringJS(rest[:n])}, at + n
	case c == '/' && !operand:
		kind, n = 'r', closingQuote(rest)
	case isDigit(rune(c)) || c == '.' && len(rest) > 1 && isDigit(rune(rest[1])):
		kind, n = 'n', leading(rest, func(r rune) bool { return isWord(r) || r == '.' })
	case isWord(rune(c)):
		kind, n = 'w', leading(rest, isWord)
	case strings.HasPrefix(rest, "..."):
		n = 3
	case strings.HasPrefix(rest, "?."), strings.HasPrefix(rest, "/="):
		n = 2
	default:
		n = max(1, leading(rest, func(r rune) bool { return strings.ContainsRune("-+*%&|^<>=!?~", r) }))
	}
	return jsToken{kind: kind, text: rest[:n]}, at + n
}

// leading returns how many bytes at the beginning of a text are of a kind.
func leading(text string, is func(rune) bool) int {
	if n := strings.IndexFunc(text, func(r rune) bool { return !is(r) }); n >= 0 {
		return n
	}
	return len(text)
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

func isWord(r rune) bool {
	return r >= utf8.RuneSelf || strings.ContainsRune("_$#\\", r) || isDigit(r) || r|0x20 >= 'a' && r|0x20 <= 'z'
}

// closingQuote returns the length of a string or a regular expression.
func closingQuote(text string) int {
	class := false
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '[' || c == ']':
			class = text[0] == '/' && c == '['
		case c == text[0] && !class:
			return i + 1
		}
	}
	return len(text)
}

// stringJS returns the value of a string, as far as Go has the same escapes.
func stringJS(quoted string) string {
	text := quoted[1:max(1, len(quoted)-1)]
	if quoted[0] == '\'' {
		text = strings.ReplaceAll(strings.ReplaceAll(text, `\'`, "'"), `"`, `\"`)
	}
	if value, err := strconv.Unquote(`"` + text + `"`); err == nil {
		return value
	}
	return text
}

// operandEnds reports whether an operand ends with these tokens, before the one at an offset.
func operandEnds(before []jsToken, source string, at int) bool {
	i := len(before) - 1
	if i < 0 {
		return false
	}
	switch last := before[i]; {
	case last.kind == 'w':
		return !slices.Contains(jsOperand, last.text) || i > 0 && before[i-1].text == "."
	case last.kind != 'o':
		return true
	case last.text == ")":
		return last.pair < 1 || !slices.Contains(jsControl, before[last.pair-1].text)
	case last.text == "}":
		return !strings.Contains(source[last.at:at], "\n")
	default:
		return slices.Contains([]string{"]", "++", "--", "?."}, last.text)
	}
}

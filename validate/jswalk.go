package validate

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// freeName is the prefix of unbound names in esbuild's output.
const freeName = "$free_"

// freeNames maps the names of rules and missing imports for esbuild's Define, which handles scopes.
var freeNames = sync.OnceValue(func() map[string]string {
	names := strings.Fields("Buffer atob unescape decodeURIComponent globalThis global window self Array String Promise")
	define := map[string]string{}
	for _, path := range slices.Concat(names, rulePaths(Node), slices.Collect(maps.Keys(nodeImports()))) {
		if name := strings.Split(path, ".")[0]; !strings.ContainsAny(name, ":-") && name != "import" {
			define[name] = freeName + name
		}
	}
	return define
})

var (
	// jsQuoted matches comments, strings and regular expressions; esbuild prints a blank after a division slash.
	jsQuoted = lazy.Regexp(`//[^\n]*|/\*(?s:.*?)\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|` +
		`/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^ =*/\\\[\n])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])*/`)
	jsString = lazy.Regexp(`"_*"`)
	// jsChain matches a name or a loaded module with its members, also those after a call.
	jsChain  = lazy.Regexp(`(?:(?:\$free_require|\bimport)\("_*"\)|[\w$\\]+)` + jsMembers + `(\)` + jsMembers + `)?`)
	jsMember = lazy.Regexp(`\??\.([\w$\\]+)|(?:\?\.)?\[["']([^"']*)["']\]`)
	jsLoads  = lazy.Regexp(`^(?:\$free_require|import)\(["'](?:node:)?(.*?)["']\)`)
	// jsBinds matches a = require("x"), {b: c} = require("x").d, and a, {b as c} from "x".
	jsBinds = lazy.Regexp(`(?:([\w$]+), )?(?:([\w$]+)|\{([^{}]*)\}) (?:from |= (?:await )?(?:\$free_require|import)\()("_*")\)?(` +
		jsMembers + `)`)
	jsOption = lazy.Regexp(`[{,]\s*([\w$]+): ("_*"|[\w$]+)`)
	jsNumber = lazy.Regexp(`^-?\d+$`)

	globalObject    = lazy.Regexp(`^(globalThis|global|window|self)\.`)
	sharedPrototype = lazy.Regexp(`\.__proto__(\.|$)|(^(Object|Array|String|Function|Promise)|\.constructor)\.prototype\.`)
)

const jsMembers = `(?:\??\.[\w$\\]+|(?:\?\.)?\["_*"\])*`

// outline returns JavaScript that esbuild has printed without comments, and with blanked strings and regular
// expressions. Offsets stay.
func outline(text string) string {
	return jsQuoted().ReplaceAllStringFunc(text, func(s string) string {
		if strings.HasPrefix(s, "//") || strings.HasPrefix(s, "/*") {
			return strings.Repeat(" ", len(s))
		}
		return `"` + strings.Repeat("_", len(s)-2) + `"`
	})
}

// importedNames maps the names of imports to their paths.
func (p printedJS) importedNames() map[string]string {
	names := map[string]string{}
	for _, m := range jsBinds().FindAllStringSubmatchIndex(p.outline, -1) {
		part := func(i int) string { return p.text[max(0, m[2*i]):max(0, m[2*i+1])] }
		module := strings.ReplaceAll(strings.TrimPrefix(stringJS(part(4)), "node:"), "/", ".") + part(5)
		names[part(1)], names[part(2)] = module, module
		for binding := range strings.SplitSeq(p.outline[max(0, m[6]):max(0, m[7])], ",") {
			if words := strings.FieldsFunc(binding, func(r rune) bool { return strings.ContainsRune(" :\n", r) }); len(words) > 0 {
				names[words[len(words)-1]] = module + "." + words[0]
			}
		}
	}
	delete(names, "")
	return names
}

// resolvePath returns the path of a chain. It starts with unknownText if the name has another binding.
func (p printedJS) resolvePath(chain string) string {
	chain = jsMember().ReplaceAllString(chain, ".$1$2")
	path, members, _ := strings.Cut(chain, ".")
	if m := jsLoads().FindStringSubmatch(chain); m != nil {
		path, members = strings.ReplaceAll(m[1], "/", "."), strings.TrimPrefix(chain[len(m[0]):], ".")
	} else if imported, is := p.names[path]; is {
		path = imported
	} else if name, free := strings.CutPrefix(path, freeName); free || path == "import" {
		path = name
	} else {
		path = unknownText + path
	}
	path = globalObject().ReplaceAllString(strings.TrimSuffix(path+"."+members, "."), "")
	return strings.TrimSuffix(strings.TrimSuffix(strings.Replace(path, "fs.promises", "fs", 1), ".default"), "Sync")
}

// calls lists the calls of functions that have a path, and assignments to prototypes; whole is false if nested
// arguments are too long.
func (p printedJS) calls() (all []call, whole bool) {
	var ends []int
	budget := 1<<20 + 4*len(p.outline)
	for _, m := range jsChain().FindAllStringSubmatchIndex(p.outline, -1) {
		chain, end, before := p.text[m[0]:m[1]], m[1], p.outline[max(0, m[0]-7):m[0]]
		switch {
		case strings.HasSuffix(before, ".") && !strings.HasSuffix(before, "..."):
			continue
		case m[2] < 0:
		case strings.HasSuffix(before, "(0, "), strings.HasSuffix(before, "(await "), strings.HasSuffix(before, "new ("):
			chain = p.text[m[0]:m[2]] + p.text[m[2]+1:end]
		default:
			chain, end = p.text[m[0]:m[2]], m[2]
		}
		c := call{Path: p.resolvePath(chain), At: m[0], Named: map[string]string{}}
		open, optional := strings.CutPrefix(p.outline[end:], "?.")
		if optional {
			end += len("?.")
		}
		switch {
		case strings.HasPrefix(open, " = ") && sharedPrototype().MatchString(c.Path):
			c.Path = "set:prototype"
		case strings.HasPrefix(open, "(") && !strings.HasPrefix(c.Path, unknownText):
			from := end
			c.Args, end = p.arguments(end)
			if budget -= end - from; budget < 0 {
				return all, false
			}
			for _, o := range jsOption().FindAllStringSubmatchIndex(p.outline[from:end], -1) {
				c.Named[p.text[from+o[2]:from+o[3]]] = p.literalText(from+o[4], from+o[5])
			}
		default:
			continue
		}
		all, ends = append(all, c), append(ends, end)
	}
	for i := range all {
		for j := i + 1; j < min(len(all), i+50) && ends[j] < ends[i]; j++ {
			all[i].Inner = append(all[i].Inner, all[j].Path)
		}
	}
	return all, true
}

// arguments returns the literals of the arguments in a parenthesis, and its end.
func (p printedJS) arguments(open int) (all []string, end int) {
	from, depth := open+1, 0
	for end = open; end < min(len(p.outline), open+maxWord); end++ {
		switch p.outline[end] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
		if depth == 0 && end > from || depth == 1 && p.outline[end] == ',' {
			all = append(all, p.literalText(from, end))
			from = end + 1
		}
		if depth == 0 {
			break
		}
	}
	return all, end
}

// literalText returns the texts in an expression, with unknownText for other parts; the quoted words of a list; a
// number; or unknownText and the path of a name.
func (p printedJS) literalText(from, to int) string {
	outline := strings.TrimSpace(p.outline[from:to])
	from = to - len(strings.TrimLeft(p.outline[from:to], " \n"))
	name, called := strings.CutSuffix(outline, "()")
	switch {
	case jsNumber().MatchString(outline):
		return outline
	case jsChain().FindString(name) == name && name != "" && !strings.HasPrefix(name, `"`):
		path := unknownText + strings.TrimPrefix(p.resolvePath(p.text[from:from+len(name)]), unknownText)
		if called {
			path += "()"
		}
		return path
	}
	text, last, list := "", 0, strings.HasPrefix(outline, "[")
	for _, s := range jsString().FindAllStringIndex(outline, -1) {
		value := stringJS(p.text[from+s[0] : from+s[1]])
		if list {
			value = " '" + strings.ReplaceAll(value, "'", `'\''`) + "'"
		} else if s[0] > last {
			text += unknownText
		}
		text, last = text+value, s[1]
	}
	if last < len(outline) && !list {
		text += unknownText
	}
	return strings.TrimSpace(text)
}

// stringJS returns the value of a string, for escapes that Go has, too.
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

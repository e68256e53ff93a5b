package validate

import (
	"slices"
	"strings"

	"github.com/dop251/goja/ast"
)

// nodeModules are the built-in modules that code uses by their own name, with the members that distinguish a module
// from a variable of that name; "" is any member.
var nodeModules = map[string]string{
	"fs": "", "os": "", "zlib": "", "child_process": "", "http": "", "https": "", "readline": "", "querystring": "", "vm": "",
	"dns": "", "worker_threads": "", "string_decoder": "", "perf_hooks": "", "v8": "",
	"path":    "join resolve basename dirname extname relative normalize parse format sep isAbsolute delimiter posix win32",
	"util":    "promisify inspect format inherits types deprecate isDeepStrictEqual parseArgs styleText callbackify debuglog stripVTControlCharacters",
	"crypto":  "createHash createHmac randomBytes createCipheriv createDecipheriv pbkdf2 pbkdf2Sync scrypt scryptSync createSign createVerify generateKeyPair generateKeyPairSync timingSafeEqual randomInt getHashes hash createPublicKey createPrivateKey sign verify",
	"url":     "parse URL fileURLToPath pathToFileURL format resolve",
	"net":     "createServer connect createConnection Socket Server isIP isIPv4 isIPv6",
	"dgram":   "createSocket",
	"tls":     "connect createServer",
	"events":  "EventEmitter once on",
	"stream":  "Readable Writable Transform Duplex PassThrough pipeline finished promises",
	"assert":  "ok equal strictEqual deepStrictEqual deepEqual throws rejects notStrictEqual strict fail match",
	"cluster": "fork isMaster isPrimary isWorker workers on",
}

// nodeNames maps functions that code uses without their module to the module.
var nodeNames = map[string]string{
	"execSync": "child_process", "spawnSync": "child_process", "execFileSync": "child_process", "spawn": "child_process",
	"readFileSync": "fs", "writeFileSync": "fs", "existsSync": "fs", "mkdirSync": "fs", "readdirSync": "fs", "statSync": "fs",
	"appendFileSync": "fs", "unlinkSync": "fs", "createReadStream": "fs", "createWriteStream": "fs",
	"promisify": "util", "createHash": "crypto", "randomBytes": "crypto", "createHmac": "crypto", "EventEmitter": "events",
	"fileURLToPath": "url", "pathToFileURL": "url", "createInterface": "readline",
}

// missing returns the built-in modules that the program uses and does not load.
func (p *jsProgram) missing(module bool, known []string) []missing {
	var out []missing
	seen := map[string]bool{}
	free := func(e ast.Expression, s *jsScope) (string, bool) {
		if o, is := e.(*ast.Optional); is {
			e = o.Expression
		}
		id, is := e.(*ast.Identifier)
		if !is {
			return "", false
		}
		name := string(id.Name)
		return name, !p.guarded[name] && !seen[name] && s.lookup(name) == nil && !slices.Contains(known, name)
	}
	// called adds a function or a class that is used by its name alone.
	called := func(x ast.Node, e ast.Expression, s *jsScope) {
		name, is := free(e, s)
		from, known := nodeNames[name]
		if !is || !known {
			return
		}
		seen[name] = true
		statement := "const { " + name + ` } = require("node:` + from + `");`
		if module {
			statement = "import { " + name + ` } from "node:` + from + `";`
		}
		out = append(out, missing{name, statement, p.offset(x)})
	}
	for _, n := range p.nodes {
		switch x := n.node.(type) {
		case *ast.DotExpression:
			name, is := free(x.Left, n.scope)
			members, known := nodeModules[name]
			if is && known && (members == "" || slices.Contains(strings.Fields(members), string(x.Identifier.Name))) {
				seen[name] = true
				out = append(out, missing{name, wholeModule(name, module), p.offset(x)})
			}
		case *ast.CallExpression:
			called(x, x.Callee, n.scope)
		case *ast.NewExpression:
			called(x, x.Callee, n.scope)
		case *ast.ClassLiteral:
			called(x, x.SuperClass, n.scope)
		}
	}
	slices.SortStableFunc(out, func(a, b missing) int { return a.At - b.At })
	return out
}

func wholeModule(name string, module bool) string {
	if module {
		return "import " + name + ` from "node:` + name + `";`
	}
	return "const " + name + ` = require("node:` + name + `");`
}

// importGap returns where imports go: below the first comments and directives.
func importGap(source string) gap {
	text := []byte(source)
	at := 0
	if strings.HasPrefix(source, "\ufeff") {
		at = len("\ufeff")
	}
	if strings.HasPrefix(source[at:], "#!") {
		if at = strings.IndexByte(source, '\n') + 1; at == 0 {
			return gap{len(source), true}
		}
	}
	at = skipJS(text, at)
	for directive().Match(text[at:]) {
		_, end := tokenJS(text, at)
		next := skipJS(text, end)
		if next < len(text) && text[next] == ';' {
			next = skipJS(text, next+1)
		}
		at = next
	}
	line := strings.LastIndexByte(source[:at], '\n') + 1
	if blank := strings.Trim(source[line:at], " \t"); blank == "" || blank == "\ufeff" {
		return gap{max(line, at-len(strings.TrimPrefix(source[line:at], "\ufeff"))), false}
	}
	return gap{at, true}
}

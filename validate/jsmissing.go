package validate

import (
	"slices"
	"strings"
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
	for i, t := range p.tokens {
		name := t.text
		if t.kind != 'w' || p.is(i-1, ".", "?.") || p.guarded[name] || seen[name] || slices.Contains(known, name) {
			continue
		}
		if _, bound := p.named(name, i); bound {
			continue
		}
		members, isModule := nodeModules[name]
		from, isName := nodeNames[name]
		statement := ""
		switch {
		case isModule && p.is(i+1, ".", "?.") && p.word(i+2) && (members == "" || hasWord(members, p.tokens[i+2].text)):
			statement = wholeModule(name, module)
		case !isName || p.is(i+1, "(") && p.params[i+1] || !p.is(i+1, "(") && !p.is(i-1, "extends"):
			continue
		case module:
			statement = "import { " + name + ` } from "node:` + from + `";`
		default:
			statement = "const { " + name + ` } = require("node:` + from + `");`
		}
		seen[name] = true
		out = append(out, missing{name, statement, t.at})
	}
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
	at := skipJS(source, 0)
	for at < len(source) {
		t, end := tokenJS(source, at, true)
		if t.kind != 's' || !strings.HasPrefix(t.text, "use ") {
			break
		}
		if at = skipJS(source, end); at < len(source) && source[at] == ';' {
			at = skipJS(source, at+1)
		}
	}
	line := strings.LastIndexByte(source[:at], '\n') + 1
	if blank := strings.Trim(source[line:at], " \t"); blank == "" || blank == "\ufeff" {
		return gap{max(line, at-len(strings.TrimPrefix(source[line:at], "\ufeff"))), false}
	}
	return gap{at, true}
}

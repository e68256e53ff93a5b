package validate

import (
	"bytes"
	"fmt"
	"path"
	"strings"
)

// maxShebang is the number of bytes that Linux reads of a file's first line: BINPRM_BUF_SIZE.
const maxShebang = 256

// shebang returns the command of a script's first line as the kernel parses it: a program, and at most one argument,
// the rest of the line. For env(1) it is the program that env would start, with the arguments that "env -S" splits.
func shebang(source []byte) []string {
	line, _, _ := bytes.Cut(source[:min(len(source), maxShebang)], []byte("\n"))
	line, ok := bytes.CutPrefix(line, []byte("#!"))
	if !ok {
		return nil
	}
	program, rest, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(string(line), "\t", " ")), " ")
	rest = strings.TrimSpace(rest)
	switch {
	case program == "":
		return nil
	case rest == "":
		return []string{program}
	case path.Base(program) == "env":
		words := []string{rest}
		if split, ok := strings.CutPrefix(rest, "-S"); ok {
			words = strings.Fields(split)
		}
		if len(words) > 0 && !strings.HasPrefix(words[0], "-") && !strings.Contains(words[0], "=") && !strings.ContainsAny(rest, `'"\`) {
			return words
		}
	}
	return []string{program, rest}
}

// kindByShebang returns the kind of a script by its first line. The directory of a known interpreter does not matter.
func kindByShebang(source []byte) (kind, bool) {
	words := shebang(source)
	if words == nil {
		return kind{}, false
	}
	k := kind{language: Command}
	known := map[string]string{"python": Python, "python3": Python, "node": Node, "nodejs": Node, "bash": "bash", "sh": "sh", "Rscript": R}
	if name := known[path.Base(words[0])]; name != "" {
		k, _ = kindByLanguage(name)
		words[0] = name
	}
	k.interpreter = words
	return k, true
}

// Language returns the canonical name of a language: "javascript"
// and "typescript" are "node", "bash" is "shell".
func Language(name string) (string, error) {
	k, ok := kindByLanguage(name)
	if !ok {
		return "", fmt.Errorf("unknown language %.40q: use %s", name, Languages)
	}
	return k.language, nil
}

// Languages lists the built-in languages, for messages.
const Languages = "python, node, shell or r"

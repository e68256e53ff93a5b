package validate

import "fmt"

// Language returns the name under which the interpreter of a language is known here: "javascript"
// and "typescript" are "node", "bash" is "shell".
func Language(name string) (string, error) {
	k, ok := byLanguage(name)
	if !ok {
		return "", fmt.Errorf("unknown language %.40q: use %s", name, Languages)
	}
	return k.language, nil
}

// Languages are the names that are always known, for messages.
const Languages = "python, node, shell or r"

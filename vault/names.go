package vault

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxName is the longest key or namespace, in bytes: enough for any sane name, and short enough for one line
// of an error.
const maxName = 128

// checkKey refuses a key that can't be the name of an environment variable, which is how programs get their secrets.
// Its error does not quote the key, which may be the value, typed in the wrong place.
func checkKey(key string) error {
	const rule = "use letters, digits and _, not a digit first"
	switch i := strings.IndexFunc(key, func(c rune) bool { return c > 'z' || !isWord(byte(c)) }); {
	case key == "":
		return errors.New("a secret has no name")
	case strings.Contains(key, "="):
		return errors.New("name the secret alone, without = and a value")
	case i >= 0:
		return fmt.Errorf("the name of a secret is invalid at byte %d: %s", i+1, rule)
	case isDigit(key[0]):
		return fmt.Errorf("the name of a secret begins with a digit: %s", rule)
	case len(key) > maxName:
		return fmt.Errorf("the name of a secret has %d bytes, more than %d", len(key), maxName)
	}
	return nil
}

// checkNamespace refuses a name that a store could confuse with another namespace.
func checkNamespace(namespace string) error {
	ok := func(c byte) bool { return isWord(c) || c == '-' || c == '.' }
	if namespace == "" || len(namespace) > maxName || namespace[0] == '.' || !allBytes(namespace, ok) {
		return fmt.Errorf("%.40q is not a namespace: use letters, digits, -, _ and ., not a dot first, at most %d bytes",
			namespace, maxName)
	}
	return nil
}

// CheckName returns an error if no secret can have these names.
func CheckName(namespace, key string) error {
	if err := checkNamespace(namespace); err != nil {
		return err
	}
	return checkKey(key)
}

// checkValue refuses a value that no environment variable can hold. Its error does not quote the value.
func checkValue(value []byte) error {
	switch {
	case len(value) == 0:
		return errors.New("the value is empty")
	case len(value) > MaxValue:
		return fmt.Errorf("the value has %d bytes, more than %d", len(value), MaxValue)
	case bytes.IndexByte(value, 0) >= 0:
		return errors.New("the value holds a zero byte, which no environment variable can")
	}
	return nil
}

// Variable returns the environment variable that the environment store reads for a secret.
//
// It is SANDBOXMCP_SECRET_{NAMESPACE}_{KEY}, the namespace in upper case. Namespaces isolate, so no variable may be
// readable from two of them:
//
//   - A namespace with a dash has _ in its place, and two before the key: DB_URL of team-a is
//     SANDBOXMCP_SECRET_TEAM_A__DB_URL. With one it would also be A_DB_URL of the namespace team.
//   - A key that holds __ is refused, as it would be ambiguous again.
//   - A namespace with anything but lower-case letters, digits and single dashes between them is
//     refused: a_b, a.b and A-B would all be a-b. Other stores take such names.
func Variable(namespace, key string) (string, error) {
	if err := checkNamespace(namespace); err != nil {
		return "", err
	}
	if err := checkKey(key); err != nil {
		return "", err
	}
	if strings.Contains(key, "__") {
		return "", fmt.Errorf("secret %s can't come from the environment: its name holds __", key)
	}
	if !allBytes(namespace, isLabelByte) || strings.Contains("-"+namespace+"-", "--") {
		return "", fmt.Errorf("namespace %s can't have secrets in the environment: "+
			"use lower-case letters, digits and single dashes between them", namespace)
	}
	between := "_"
	if strings.Contains(namespace, "-") {
		between = "__"
	}
	upper := strings.ToUpper(strings.ReplaceAll(namespace, "-", "_"))
	return variablePrefix + upper + between + key, nil
}

// variablePrefix begins the names of all variables that hold secrets.
const variablePrefix = "SANDBOXMCP_SECRET_"

// WithoutSecrets returns environ without the variables that hold secrets, for other programs that this process starts.
func WithoutSecrets(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(one string) bool {
		return len(one) >= len(variablePrefix) && strings.EqualFold(one[:len(variablePrefix)], variablePrefix) // Windows does not tell case apart
	})
}

func isDigit(c byte) bool     { return '0' <= c && c <= '9' }
func isWord(c byte) bool      { return isDigit(c) || c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }
func isLabelByte(c byte) bool { return isDigit(c) || c == '-' || 'a' <= c && c <= 'z' }

func allBytes(s string, ok func(byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return true
}

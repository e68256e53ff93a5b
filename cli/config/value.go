package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// text returns the value as non-empty text. A number, date or boolean without quotes is an error in a file.
func (v value) text() (string, error) {
	switch {
	case v.list:
		return "", errors.New("expected one value, not a list")
	case v.tag != "" && v.tag != "!!str":
		return "", fmt.Errorf("expected text, not %s", typeName(v.tag))
	case strings.TrimSpace(v.words[0]) == "":
		return "", errors.New("the value is empty")
	}
	return v.words[0], nil
}

// number returns the value as a plain decimal number that is not negative.
func (v value) number() (float64, error) {
	switch {
	case v.list:
		return 0, errors.New("expected one number, not a list")
	case v.tag != "" && v.tag != "!!int" && v.tag != "!!float":
		return 0, fmt.Errorf("expected a number, not %s", typeName(v.tag))
	}
	text := v.words[0]
	// Only plain decimals: readers disagree about 0x10, 1_000, 1e3, 010 or .inf.
	plain := text != "" && strings.Trim(text, "0123456789.") == "" && (text[0] != '0' || len(text) == 1 || text[1] == '.')
	if negative, isNegative := strings.CutPrefix(text, "-"); isNegative && strings.Trim(negative, "0123456789.") == "" {
		return 0, fmt.Errorf("%s is negative", text)
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !plain || text[0] == '.' {
		return 0, fmt.Errorf("%q is not a plain decimal number", text)
	}
	return n, nil
}

// boolean returns the value as a bool: true, on, yes and 1, or false, off, no and 0.
func (v value) boolean() (bool, error) {
	if v.list {
		return false, errors.New("expected true or false, not a list")
	}
	switch v.words[0] {
	case "true", "on", "yes", "1":
		return true, nil
	case "false", "off", "no", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", v.words[0])
}

// wordList returns the value as a list of non-empty names; sources without types separate names by commas.
func (v value) wordList() ([]string, error) {
	if v.numbers != nil {
		return nil, v.numbers
	}
	words := v.words
	if !v.list && v.tag == "" {
		words = strings.Split(words[0], ",")
	}
	if v.tag != "" && v.tag != "!!str" {
		return nil, fmt.Errorf("expected a list of names, not %s", typeName(v.tag))
	}
	words = slices.Clone(words)
	for i := range words {
		if words[i] = strings.TrimSpace(words[i]); words[i] == "" {
			return nil, errors.New("a name in the list is empty")
		}
	}
	return words, nil
}

// typeName returns words for a YAML type.
func typeName(tag string) string {
	switch tag {
	case "!!str":
		return "text (leave out the quotes)"
	case "!!int", "!!float":
		return "a number (quote it if it is text)"
	case "!!bool":
		return "true or false (quote it if it is text)"
	case "!!null":
		return "nothing (the key has no value)"
	case "!!timestamp":
		return "a date"
	}
	return tag
}

// yamlList formats a list in YAML's flow style.
func yamlList(words []string) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = yamlWord(w)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// yamlWord formats a word as a YAML scalar.
func yamlWord(word string) string {
	if word == "" || strings.Trim(word, "0123456789") == "" || strings.ContainsAny(word, `*:,[]{}#&!|>'"%@=`+"`") {
		return strconv.Quote(word)
	}
	return word
}

// quotedChoices returns the quoted words, joined by "or", for a message.
func quotedChoices(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	return strings.Join(quoted, " or ")
}

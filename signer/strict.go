package signer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxJSONDepth is the maximum depth of JSON: more than receipts need.
const maxJSONDepth = 16

// checkJSON refuses ambiguous JSON: duplicate names in an object, also if they differ in case, which encoding/json
// ignores; invalid UTF-8; and text after the end. It limits the depth.
func checkJSON(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("it is not JSON: some of it is not UTF-8")
	}
	if !json.Valid(text) {
		if len(bytes.TrimSpace(text)) == 0 {
			return errors.New("it is empty")
		}
		return errors.New("it is not JSON, was cut off, or has text after its end")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // don't parse numbers
	return checkValue(d, 0)
}

// checkValue checks a value, which is valid JSON.
func checkValue(d *json.Decoder, depth int) error {
	if depth > maxJSONDepth {
		return fmt.Errorf("it is nested more than %d levels deep", maxJSONDepth)
	}
	t, err := d.Token()
	if err != nil {
		return err
	}
	open, _ := t.(json.Delim)
	if open == 0 {
		return nil
	}
	names := map[string]bool{}
	for d.More() {
		if open == '{' {
			t, err := d.Token()
			if err != nil {
				return err
			}
			name, _ := t.(string)
			// Both ways, as U+212A is "k" in lower case alone, and U+017F "S" in upper case alone.
			folded := strings.ToLower(strings.ToUpper(name))
			if names[folded] {
				return fmt.Errorf("it has two fields %q in one object, so two readers could see two things", name)
			}
			names[folded] = true
		}
		if err := checkValue(d, depth+1); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

package rpc

import (
	"bytes"
	"encoding/json"
	"regexp"
	"sync"
)

// findID looks for the id of a request that can't be parsed, so that its sender does not wait forever. The result is
// certainly the request's id, or nil: findID accepts a member of the outermost object, before the first value that is
// an object or a list, or at the end of the text.
func findID(text []byte) json.RawMessage {
	if id := leadingID(text); id != nil {
		return id
	}
	if m := trailingID().FindSubmatch(text); m != nil {
		return json.RawMessage(m[1])
	}
	return nil
}

// Only the outermost object can end a line with a single brace after a plain member.
var trailingID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[,{]\s*"id"\s*:\s*(-?[0-9]{1,18}|"[^"\\[:cntrl:]]{1,100}")\s*\}$`)
})

func leadingID(text []byte) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(text[:min(len(text), 4<<10)]))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for {
		key, err := d.Token()
		if err != nil {
			return nil
		}
		value, err := d.Token()
		if err != nil {
			return nil
		}
		switch value.(type) {
		case json.Delim:
			return nil
		case json.Number, string:
			if rest := bytes.TrimLeft(text[d.InputOffset():], " \t"); key == "id" {
				id, err := json.Marshal(value)
				if err != nil || len(rest) == 0 || rest[0] != ',' && rest[0] != '}' { // the 7 of 7x is not an id
					return nil
				}
				return id
			}
		}
	}
}

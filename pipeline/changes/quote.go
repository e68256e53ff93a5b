package changes

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// name is a text of any bytes in JSON. A text that is not UTF-8, or begins with a quotation mark, is quoted as in Go,
// so that a reader gets the same bytes that were written.
type name string

func (n name) MarshalText() ([]byte, error) {
	if s := string(n); !utf8.ValidString(s) || strings.HasPrefix(s, `"`) {
		return []byte(strconv.Quote(s)), nil
	}
	return []byte(n), nil
}

func (n *name) UnmarshalText(b []byte) error {
	s := string(b)
	if strings.HasPrefix(s, `"`) {
		var err error
		if s, err = strconv.Unquote(s); err != nil {
			return fmt.Errorf("a name that is not quoted well: %w", err)
		}
	}
	*n = name(s)
	return nil
}

// These types have no methods. In them, fields that may contain any bytes have the type name instead of string.
type (
	plainState State
	plainEntry Entry
	stateJSON  struct {
		*plainState
		Target name `json:"target,omitempty"`
	}
	entryJSON struct {
		*plainEntry
		Path        name `json:"path"`
		RenamedFrom name `json:"renamed_from,omitempty"`
	}
)

func (s State) MarshalJSON() ([]byte, error) {
	return json.Marshal(stateJSON{(*plainState)(&s), name(s.Target)})
}

func (s *State) UnmarshalJSON(b []byte) error {
	j := stateJSON{plainState: (*plainState)(s)}
	err := json.Unmarshal(b, &j)
	s.Target = string(j.Target)
	return err
}

func (e Entry) MarshalJSON() ([]byte, error) {
	return json.Marshal(entryJSON{(*plainEntry)(&e), name(e.Path), name(e.RenamedFrom)})
}

func (e *Entry) UnmarshalJSON(b []byte) error {
	j := entryJSON{plainEntry: (*plainEntry)(e)}
	err := json.Unmarshal(b, &j)
	e.Path, e.RenamedFrom = string(j.Path), string(j.RenamedFrom)
	return err
}

// quoteName returns a name as git writes it in patches: in quotation marks if it contains control characters, quotation
// marks, backslashes, or bytes that are not ASCII.
func quoteName(s string) string {
	plain := true
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		c := s[i]
		at := strings.IndexByte("\a\b\t\n\v\f\r\"\\", c)
		switch {
		case at >= 0:
			b.WriteByte('\\')
			b.WriteByte("abtnvfr\"\\"[at])
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
			continue
		}
		plain = false
	}
	if plain {
		return s
	}
	return b.String() + `"`
}

package kernel

import (
	"bytes"
	"strings"
	"testing"
)

// A program can write frames to its interpreter's channel. They must not grow to gigabytes in the server.
func TestFramesHoldNoMoreThanTheyMay(t *testing.T) {
	many := func(n int, item string) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	forms := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(`"` + strings.Repeat("k", i+1) + `":"",`)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	for _, test := range []struct {
		name  string
		codec codec
		body  string
		fails bool
	}{
		{"variables", jsonCodec{}, `{"op":"done","id":1,"vars":[` + many(maxVariables, "{}") + `]}`, false},
		{"too many variables", jsonCodec{}, `{"op":"x","vars":[` + many(maxVariables+1, "{}") + `]}`, true},
		{"words", jsonCodec{}, `{"op":"ready","ops":[` + many(maxForms, `""`) + `]}`, false},
		{"too many words", jsonCodec{}, `{"op":"ready","ops":[` + many(maxForms+1, `""`) + `]}`, true},
		{"commas in text", jsonCodec{}, `{"op":"done","vars":[{"text":"\"` + strings.Repeat(",", 2*maxVariables) + `"}]}`, false},
		{"forms", jsonCodec{}, `{"op":"display","id":1,"data":{` + forms(maxForms) + `}}`, false},
		{"too many forms", jsonCodec{}, `{"op":"display","id":1,"data":{` + forms(maxForms+1) + `}}`, true},
		{"too many forms of a value", jsonCodec{}, `{"op":"done","id":1,"value":{` + forms(maxForms+1) + `}}`, true},
		{"no value", jsonCodec{}, `{"op":"done","id":1,"value":null,"vars":null}`, false},
		{"a long list that is passed on as it is", jsonCodec{}, `{"op":"done","id":1,"json":[` + many(3*maxVariables, "1") + `]}`, false},
		{"too many fields", shellCodec{}, "done\x001\x00list" + strings.Repeat("\x00", maxFields+1), true},
		{"a list of fields", shellCodec{}, "done\x001\x00list" + strings.Repeat("\x00", maxFields/2), false},
	} {
		frame := append([]byte{0, 0, 0, 0}, test.body...)
		for i := range 4 {
			frame[i] = byte(len(test.body) >> (24 - 8*i))
		}
		_, err := readFrame(bytes.NewReader(frame), test.codec, func() error { return nil })
		if (err != nil) != test.fails {
			t.Errorf("%s: %v, want an error: %v", test.name, err, test.fails)
		}
	}
}

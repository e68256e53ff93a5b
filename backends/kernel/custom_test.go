package kernel

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// endless is an infinite stream of one letter.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte("x"), len(p))), nil }

func TestLines(t *testing.T) {
	done := func(size int) string { // a line of size bytes, including its line feed
		const startSession, end = `{"op":"done","id":1,"value":{"a":"`, `"}}` + "\n"
		return startSession + strings.Repeat("x", size-len(startSession)-len(end)) + end
	}
	for _, c := range []struct {
		name  string
		lines io.Reader
		want  string // the error, "" for none
		waits int
	}{
		{"small", strings.NewReader(done(smallFrame)), "", 0},
		{"large", strings.NewReader(done(3*smallFrame) + "more"), "", 1},
		{"as large as may be", strings.NewReader(done(maxFrame)), "", 1},
		{"larger", strings.NewReader(done(maxFrame + 1)), "protocol: a line of more than", 1},
		{"endless", endless{}, "protocol: a line of more than", 1},
		{"two", strings.NewReader(`{"op":"ready","ops":["set"]}` + "\nhello\n"), "", 0},
		{"with CR", strings.NewReader("{\"op\":\"ready\"}\r\n"), "", 0},
		{"empty", strings.NewReader("\n"), "protocol: a line that can't be read", 0},
		{"two in one", strings.NewReader(`{"op":"ready"}{"op":"ready"}` + "\n"), "protocol: a line that can't be read", 0},
		{"no object", strings.NewReader("[]\n"), "protocol: a line that can't be read", 0},
		{"a value that is not an object", strings.NewReader(`{"op":"done","id":1,"value":"42"}` + "\n"), "protocol: a line that can't be read",
			0},
		{"too many forms", strings.NewReader(`{"op":"done","value":{` + strings.Repeat(`"a":"",`, maxForms+1) + `"b":""}}` + "\n"),
			"protocol: a line that can't be read: one thing in", 0},
		{"another op", strings.NewReader(`{"op":"call","id":1}` + "\n"), "its op is not ready, display or done", 0},
		{"without end", strings.NewReader(`{"op":"ready"}`), "protocol: the channel was closed in the middle", 0},
		{"nothing", strings.NewReader(""), "EOF", 0},
	} {
		waits := 0
		_, err := readLine(bufio.NewReader(c.lines), lineCodec{}, func() error { waits++; return nil })
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || waits != c.waits {
			t.Errorf("%s: got %v after %d waits, want %q after %d", c.name, err, waits, c.want, c.waits)
		}
	}
	enough := errors.New("enough")
	if _, err := readLine(bufio.NewReader(endless{}), lineCodec{}, func() error { return enough }); err != enough {
		t.Errorf("nobody waits for it: %v", err)
	}
	if line, err := (lineCodec{}).encode(request{Op: "run", Code: "<a>\n\u2028\x00", Value: []byte("[\n1]")}); err != nil ||
		bytes.Count(line, []byte("\n")) != 1 || !bytes.HasPrefix(line, []byte(`{"op":"run"`)) || !bytes.HasSuffix(line, []byte("}\n")) {
		t.Errorf("a request is %q %v", line, err)
	}
}

// TestTwoAnswers checks that the first of two answers counts.
func TestTwoAnswers(t *testing.T) {
	var a answer
	for _, r := range []reply{{Op: "done", ID: 1}, {Op: "done", ID: 2, Exit: new(int)}, {Op: "done", ID: 2},
		{Op: "display", ID: 2, Data: Bundle{"a": "b"}}} {
		a.store(r, 2, func(Bundle) { t.Error("it displays after its end") })
	}
	if a.Exit == nil {
		t.Errorf("got %+v", a)
	}
}

// FuzzLine decodes lines that any program may have written.
func FuzzLine(f *testing.F) {
	for _, text := range []string{`{"op":"ready","ops":["set"]}`, `{"op":"done","id":1,"value":{"a":"b"},"exit":7}`,
		`{"op":"display","id":1,"data":{}}`, `[`, ``, "\x00"} {
		f.Add([]byte(text + "\n"))
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bufio.NewReader(bytes.NewReader(data))
		answer, err := readLine(r, lineCodec{}, func() error { return nil })
		line, _, ended := bytes.Cut(data, []byte("\n"))
		if err == nil && (!ended || !bytes.Contains(line, []byte(answer.Op))) && !bytes.Contains(line, []byte(`\u`)) {
			t.Errorf("%+v out of %q", answer, data)
		}
	})
}

package kernel

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// shellCodec encodes text fields instead of JSON, whose parsing would take a shell a hundred times as long. A
// request is a line of words (operation, number, mark, and the length of each field in bytes), followed by the
// fields. A reply is a frame of fields that each end with a NUL byte.
type shellCodec struct{}

func (shellCodec) driver(source string) ([]byte, error) {
	return fmt.Appendf(nil, "%d\n%s", len(source), source), nil
}

func (shellCodec) encode(q request) ([]byte, error) {
	var fields []string
	op := q.Op
	switch q.Op {
	case "run":
		if countCommands(q.Code) > maxCommands {
			op = "lines"
		}
		fields = append([]string{q.Code}, q.environment()...)
	case "set":
		if q.Key == "IFS" { // the driver needs it to read the next request
			return nil, errors.New("the shell splits words by IFS: set it in code")
		}
		text, err := shellText(q.Value)
		if err != nil {
			return nil, err
		}
		fields = append(fields, q.Key, text, string(q.Value))
	case "get":
		fields = append(fields, q.Key)
	}
	header, body, err := joinFields(op, q, fields)
	if err != nil {
		return nil, err
	}
	return []byte(header + body), nil
}

// environment returns a cell's variables as KEY=VALUE.
func (q request) environment() []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(q.Env)) {
		env = append(env, name+"="+q.Env[name])
	}
	return env
}

// joinFields concatenates fields, and returns their word line.
func joinFields(op string, q request, fields []string) (header, body string, err error) {
	words := []string{op, strconv.FormatInt(q.ID, 10), cmp.Or(q.Mark, "-")}
	size := 0
	for _, f := range fields {
		if strings.ContainsRune(f, 0) {
			return "", "", errors.New("it contains a NUL byte, which this language does not support")
		}
		words = append(words, strconv.Itoa(len(f)))
		size += len(f)
	}
	if size > maxFrame {
		return "", "", tooLarge(size)
	}
	return strings.Join(words, " ") + "\n", strings.Join(fields, ""), nil
}

// maxCommands bounds the commands that a shell evaluates at once. Each takes some 400 bytes of stack; longer code
// is evaluated line by line, where an error such as ${x:?} ends only its line.
const maxCommands = 5000

// countCommands returns an upper bound of the number of commands in code.
func countCommands(code string) int {
	n := 0
	for _, end := range []string{"\n", ";", "&", "|"} {
		n += strings.Count(code, end)
	}
	return n
}

// shellText returns a JSON value as a shell variable: a string's content, other values as JSON.
func shellText(value json.RawMessage) (string, error) {
	var text string
	if json.Unmarshal(value, &text) == nil && !bytes.Equal(value, []byte("null")) {
		return text, nil
	}
	var b bytes.Buffer
	err := json.Compact(&b, value)
	return b.String(), err
}

func (shellCodec) decode(body []byte) (reply, error) {
	if n := bytes.Count(body, []byte{0}); n > maxFields {
		return reply{}, fmt.Errorf("a reply of %d fields, more than %d", n, maxFields)
	}
	fields := strings.Split(strings.TrimSuffix(string(body), "\x00"), "\x00")
	if len(fields) == 2 && fields[0] == "ready" {
		return reply{Op: "ready", Version: fields[1]}, nil
	}
	if len(fields) < 3 || fields[0] != "done" && fields[0] != "display" {
		return reply{}, fmt.Errorf("a reply of %d fields that begins with %.40q", len(fields), fields[0])
	}
	id, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return reply{}, err
	}
	r := reply{Op: fields[0], ID: id}
	if r.Op == "display" {
		r.Data = bundle(fields[2:])
		return r, nil
	}
	return r, r.decodeFields(fields[2], fields[3:])
}

// decodeFields stores the fields in the reply according to their kind.
func (r *reply) decodeFields(kind string, fields []string) (err error) {
	for i, f := range fields {
		fields[i] = strings.ToValidUTF8(f, "\uFFFD")
	}
	switch kind {
	case "ok":
	case "run":
		if len(fields) > 0 && fields[0] != "" {
			r.Exit = new(int)
			if *r.Exit, err = strconv.Atoi(fields[0]); err != nil {
				return err
			}
		}
		if len(fields) >= 4 {
			if fields[1] != "" {
				r.Error = &Error{fields[1], fields[2], fields[3]}
			}
			r.Value = bundle(fields[4:])
		}
	case "error":
		if len(fields) < 2 {
			return errors.New("an error without a message")
		}
		r.Error = &Error{Type: fields[0], Message: fields[1]}
	case "text":
		r.JSON, err = json.Marshal(strings.Join(fields, ""))
	case "json":
		r.JSON = json.RawMessage(strings.Join(fields, ""))
		if !json.Valid(r.JSON) {
			err = errors.New("a value that is not JSON")
		}
	case "list":
		r.JSON, err = json.Marshal(append([]string{}, fields...))
	case "map":
		pairs := map[string]string{}
		for pair := range slices.Chunk(fields, 2) {
			pairs[pair[0]] = pair[len(pair)-1]
		}
		r.JSON, err = json.Marshal(pairs)
	case "vars":
		r.Vars, err = shellVariables(fields)
	default:
		err = fmt.Errorf("a reply of the unknown kind %.40q", kind)
	}
	return err
}

// bundle builds a Bundle from pairs of MIME type and text; without fields it is nil. Forms beyond maxForms are
// dropped.
func bundle(fields []string) Bundle {
	var b Bundle
	fields = fields[:min(len(fields), 2*maxForms)]
	for pair := range slices.Chunk(fields, 2) {
		if b == nil {
			b = Bundle{}
		}
		b[pair[0]] = pair[len(pair)-1]
	}
	return b
}

func shellVariables(fields []string) ([]Variable, error) {
	list := []Variable{}
	for f := range slices.Chunk(fields, 5) {
		if len(f) < 5 {
			return nil, errors.New("a truncated variable")
		}
		size, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil {
			return nil, err
		}
		list = append(list, Variable{Name: f[0], Type: f[1], Text: f[2], Size: size, Unit: f[4]})
	}
	slices.SortFunc(list, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

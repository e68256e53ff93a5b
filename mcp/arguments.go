package mcp

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/run"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// normalizeSource removes a byte order mark, and turns CRLF into LF if all line ends are CRLF. Python and JavaScript
// accept both; a shell treats the CR as part of a word.
func normalizeSource(code string) []byte {
	code = strings.TrimPrefix(code, "\ufeff")
	if n := strings.Count(code, "\n"); n > 0 && n == strings.Count(code, "\r\n") {
		code = strings.ReplaceAll(code, "\r\n", "\n")
	}
	return []byte(code)
}

// Arguments of several tools.

type inNamespace struct {
	Namespace string `json:"namespace" about:"The namespace of its sessions, packages, secrets, limits and log. Default: \"default\"." range:"..64"`
}

type onBackend struct {
	Backend string `json:"backend" about:"The isolation backend. Default: the operator's choice; list_runtimes describes each." oneof:"process podman docker"`
}

type limited struct {
	Limits limits `json:"resource_limits" about:"Limits, at most the operator's caps. Default: what the operator or set_resource_limits has set."`
}

// limits are requested limits; 0 is not requested.
type limits struct {
	RAM       int64   `json:"max_ram_mb" about:"MB of memory, for all processes together." range:"1..1048576"`
	CPU       float64 `json:"max_cpu_cores" about:"CPU cores." range:"0.01..1024"`
	Wall      float64 `json:"timeout_seconds" about:"Seconds for a run, or a session's call." range:"0.001..86400"`
	Processes int     `json:"max_processes" about:"Processes and threads, not counting the interpreter's." range:"1..65536"`
	Output    int64   `json:"max_output_bytes" about:"Bytes stored of stdout, and of stderr." range:"1..1073741824"`
}

func (l limits) bounds() pipeline.Bounds {
	return pipeline.BoundsOf(pipeline.Limits{RAM: l.RAM, CPU: l.CPU, Wall: l.Wall, Processes: l.Processes, Output: l.Output})
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// language is a language of run code; "" is unset.
type language string

// Values returns the languages.
func (language) Values() []string { return []string{"python", "node", "typescript", "shell", "r"} }

// Spellings returns other names that models use.
func (language) Spellings() map[string]string {
	return map[string]string{
		"python3": "python", "py": "python", "ipython": "python",
		"nodejs": "node", "javascript": "node", "js": "node", "node.js": "node", "ecmascript": "node",
		"ts": "typescript", "bash": "shell", "sh": "shell", "zsh": "shell", "rscript": "r",
	}
}

// jsonValue returns the JSON in a string, or else raw. The schema has a string, since some clients refuse a property
// without a type.
func jsonValue(raw json.RawMessage) json.RawMessage {
	var s string
	if json.Unmarshal(raw, &s) == nil && json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	return raw
}

// fileArgs are the contents of files, as JSON by name.
type fileArgs map[string]json.RawMessage

// file is the object form of a file, as in other systems' tools.
type file struct {
	Name, Path, Filename  string
	Text, Content, Base64 *string
	Encoding              string
	RequestID             string `json:"request_id"`
	Artifact              string
}

// Read turns a list of files with names into an object by name.
func (fileArgs) Read(raw json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if !bytes.HasPrefix(raw, []byte("[")) || json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return raw
	}
	all := map[string]json.RawMessage{}
	for _, one := range list {
		var f file
		if json.Unmarshal(one, &f) != nil {
			return raw
		}
		name := cmp.Or(f.Name, f.Path, f.Filename)
		if _, twice := all[name]; twice || name == "" {
			return raw
		}
		all[name] = one
	}
	text, _ := json.Marshal(all) // decoded from JSON
	return text
}

// inputs decodes the files: text, data URLs, and the object forms of other systems' tools.
func (f fileArgs) inputs() ([]run.Input, error) {
	var all []run.Input
	if err := checkFileNames(slices.Sorted(maps.Keys(f))); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if stored, ok := storedFile(f[name]); ok {
			all = append(all, run.Input{Name: strings.TrimPrefix(name, "/workspace/"), Run: stored.RequestID,
				Artifact: cmp.Or(stored.Artifact, stored.Name, stored.Path, stored.Filename, name)})
			continue
		}
		content, err := fileContent(f[name])
		if err != nil {
			return nil, operation.ArgumentError("files", "%q: %v", safetext.Clip(name, 80), err)
		}
		all = append(all, run.Input{Name: strings.TrimPrefix(name, "/workspace/"), Content: content})
	}
	return all, nil
}

// checkFileNames refuses names that are invalid in the working directory, and names that collide.
func checkFileNames(names []string) error {
	const maxPath, maxName = 1000, 255 // bytes; maxName is the kernel's NAME_MAX
	taken := map[string]string{}       // the names as sent, by their clean form
	for _, name := range names {
		clean, label := path.Clean(strings.TrimPrefix(name, "/workspace/")), safetext.Clip(name, 80)
		wrong := ""
		switch {
		case strings.ContainsRune(name, 0):
			wrong = "contains a NUL byte"
		case len(clean) > maxPath:
			wrong = fmt.Sprintf("has %d bytes; the maximum is %d", len(clean), maxPath)
		case slices.ContainsFunc(strings.Split(clean, "/"), func(part string) bool { return len(part) > maxName }):
			wrong = fmt.Sprintf("has a part of more than %d bytes", maxName)
		case name == "" || !filepath.IsLocal(clean) || clean == ".":
			wrong = "is not a valid name in the working directory: send a relative one, without ..,"
			if base := path.Base(clean); filepath.IsLocal(base) && base != "." && base != "/" {
				return operation.ArgumentError("files", "%q %s such as %q", label, wrong, base)
			}
			return operation.ArgumentError("files", `%q %s such as "data.csv"`, label, wrong)
		case taken[clean] != "":
			wrong = fmt.Sprintf("and %q are the same file: omit one", safetext.Clip(taken[clean], 80))
		}
		if wrong != "" {
			return operation.ArgumentError("files", "%q %s", label, wrong)
		}
		taken[clean] = name
	}
	for clean, name := range taken {
		for dir := path.Dir(clean); dir != "."; dir = path.Dir(dir) {
			if other := taken[dir]; other != "" {
				return operation.ArgumentError("files", "%q can't be a file and the directory of %q: rename one", safetext.Clip(other, 80),
					safetext.Clip(name, 80))
			}
		}
	}
	return nil
}

// storedFile decodes a reference to an artifact of a run or of host_file_copy, instead of content.
func storedFile(raw json.RawMessage) (f file, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	ok = bytes.HasPrefix(raw, []byte("{")) && d.Decode(&f) == nil && f.RequestID != "" && f.Text == nil && f.Content == nil && f.Base64 == nil
	return f, ok
}

func fileContent(raw json.RawMessage) ([]byte, error) {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		if strings.HasPrefix(s, "data:") {
			return dataURL(s)
		}
		return []byte(s), nil
	}
	var f file
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(&f)
	var contents []*string
	for _, one := range []*string{f.Text, f.Content, f.Base64} {
		if one != nil {
			contents = append(contents, one)
		}
	}
	if err != nil || len(contents) != 1 {
		return nil, errors.New(`must be the text, a data URL, or an object with one of "text", "content" and "base64"`)
	}
	switch encoding := strings.ToLower(f.Encoding); {
	case f.Base64 != nil, encoding == "base64":
		return fromBase64(*contents[0])
	case encoding == "", encoding == "text", encoding == "utf-8", encoding == "utf8":
		return []byte(*contents[0]), nil
	}
	return nil, errors.New(`"encoding" must be text or base64`)
}

// dataURL returns the content of a data URL. An invalid data URL is returned as text.
func dataURL(s string) ([]byte, error) {
	head, data, ok := strings.Cut(strings.TrimPrefix(s, "data:"), ",")
	if !ok || strings.ContainsAny(head, "\n ") {
		return []byte(s), nil
	}
	if strings.HasSuffix(head, ";base64") {
		return fromBase64(data)
	}
	text, err := url.PathUnescape(data)
	if err != nil {
		return []byte(s), nil
	}
	return []byte(text), nil
}

func fromBase64(s string) ([]byte, error) {
	s = strings.TrimRight(strings.Join(strings.Fields(s), ""), "=")
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if b, err := e.DecodeString(s); err == nil {
			return b, nil
		}
	}
	return nil, errors.New("is not base64")
}

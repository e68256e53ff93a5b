package operation

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// A Route is an operation over HTTP and JSON, with arguments A and a result R. The arguments are in the path, in the
// query, and in the body, which is a JSON object, by their names.
//
// Only encoding and decoding depends on these types: the rest is in route, which is compiled once.
type Route[A, R any] route

type route struct {
	Pattern string // method and path, in the syntax of http.ServeMux
	Name    string // name in the OpenAPI document
	About   string
	Max     int64  // maximum size of the body, in bytes; 0 is 64 KiB
	Long    bool   // it takes as long as a program: a client waits without limit
	Stream  bool   // see Operation
	Content string // see Operation
}

// maxBody bounds a body if its route has no bound of its own, in bytes.
const maxBody = 64 << 10

// Limit returns the maximum size of the body, in bytes.
func (o *Route[A, R]) Limit() int64 { return (*route)(o).limit() }

func (o *route) limit() int64 { return max(o.Max, maxBody) }

// Operation returns the description of the operation.
func (o *Route[A, R]) Operation() Operation {
	return (*route)(o).operation(reflect.TypeFor[A](), reflect.TypeFor[R]())
}

func (o *route) operation(arguments, result reflect.Type) Operation {
	all := newOperation(o.Name, "", o.About, 0, arguments, result)
	all.Route, all.Stream, all.Content = o.Pattern, o.Stream, o.Content
	return all
}

// Arguments parses the arguments of a request. Errors are an [Invalid].
func (o *Route[A, R]) Arguments(r *http.Request) (*A, error) {
	args, err := (*route)(o).read(r, FormOf[A]())
	if err != nil {
		return nil, err
	}
	return args.(*A), nil
}

// read returns a pointer to the form's struct.
func (o *route) read(r *http.Request, form Form) (args any, err error) {
	if hasQueryArguments(r.Method, o.Content) {
		sent, err := o.inQuery(r, form)
		if err != nil {
			return nil, err
		}
		return o.fill(r, form, sent)
	}
	body, err := ReadBody(r, o.limit())
	if err != nil {
		return nil, err
	}
	err = door.Decode(r.Context(), len(body), 0, func() error {
		sent, err := inBody(r, form, body)
		if err == nil {
			args, err = o.fill(r, form, sent)
		}
		return err
	})
	return args, err
}

// fill returns a pointer to the form's struct, with the sent arguments and those in the path.
func (o *route) fill(r *http.Request, form Form, sent map[string]json.RawMessage) (any, error) {
	for _, name := range inPath(o.Pattern) {
		sent[name] = quoted(r.PathValue(name))
	}
	return form.decode(sent, true)
}

// hasQueryArguments reports whether the arguments of a request are in its query: it has no body, or the body is
// content.
func hasQueryArguments(method, content string) bool {
	return method == http.MethodGet || method == http.MethodDelete || content != ""
}

func inBody(r *http.Request, form Form, body []byte) (sent map[string]json.RawMessage, err error) {
	switch {
	case len(r.URL.RawQuery) > 0:
		return nil, Invalid{"the arguments are in the body: leave out the query"}
	case countEntries(body) > maxMembers:
		return nil, Invalid{fmt.Sprintf("there are more than %d arguments", maxMembers)}
	case len(body) == 0:
		return map[string]json.RawMessage{}, nil
	case json.Unmarshal(body, &sent) != nil || sent == nil:
		return nil, Invalid{"the body must be a JSON object, such as " + form.example()}
	}
	return sent, nil
}

// ReadBody reads the body of a request, at most most bytes. The error is an [Invalid] or a *[door.Refused].
func ReadBody(r *http.Request, most int64) ([]byte, error) {
	body, err := door.ReadBody(r, most)
	switch {
	case err == nil, errors.As(err, new(*door.Refused)):
		return body, err
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, Invalid{fmt.Sprintf("the request has more than %d bytes", most)}
	}
	return nil, Invalid{"the body can't be read: it came too slowly, or was cut off"}
}

func (o *route) inQuery(r *http.Request, form Form) (map[string]json.RawMessage, error) {
	sent := map[string]json.RawMessage{}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // a malformed part would count as absent, and request more
		return nil, Invalid{"the query is not well-formed: write other characters as % and two digits"}
	}
	for name, values := range query {
		list := slices.ContainsFunc(form.fields, func(f field) bool { return f.name == name && f.kind == "array" })
		switch {
		case list:
			sent[name], _ = json.Marshal(values) // never fails for strings
		case len(values) > 1:
			return nil, Invalid{fmt.Sprintf("argument %q is repeated", clip(name, 80))}
		default:
			sent[name] = quoted(values[0])
		}
	}
	return sent, nil
}

func quoted(s string) json.RawMessage {
	b, _ := json.Marshal(s) // of a string
	return b
}

// inPath returns the arguments in the path of a pattern.
func inPath(pattern string) (names []string) {
	for _, part := range strings.Split(pattern, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

// Handler answers requests with the result of do, and errors with deny.
func (o *Route[A, R]) Handler(do func(context.Context, *A) (R, error), deny func(http.ResponseWriter, error)) http.HandlerFunc {
	h := &handler{route: (*route)(o), arguments: reflect.TypeFor[A](), deny: deny}
	h.do = func(ctx context.Context, args any) (any, error) { return do(ctx, args.(*A)) }
	return h.ServeHTTP
}

type handler struct {
	*route
	arguments reflect.Type
	do        func(ctx context.Context, args any) (any, error)
	deny      func(http.ResponseWriter, error)

	once sync.Once
	form Form // form of the arguments, created at the first request
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.once.Do(func() { h.form = formOf(h.arguments) })
	args, err := h.read(r, h.form)
	if err != nil {
		h.deny(w, err)
		return
	}
	result, err := h.do(r.Context(), args)
	if err != nil {
		h.deny(w, err)
		return
	}
	door.Reply(w, http.StatusOK, result)
}

// A Server is the location of a server for a client.
type Server struct {
	HTTP   *http.Client
	URL    string // without a path
	Token  string // bearer token; "" sends none
	Failed func(status int, body []byte) error
}

// maxAnswer bounds an answer that is not a stream, in bytes.
const maxAnswer = 64 << 20

// Call calls the operation of a server, and returns its result.
func (o *Route[A, R]) Call(ctx context.Context, s *Server, args A) (result R, err error) {
	return o.Send(ctx, s, args, nil)
}

// Send calls the operation with content, followed by its SHA-256, and returns its result. It closes content that is
// an io.Closer. nil is no content.
func (o *Route[A, R]) Send(ctx context.Context, s *Server, args A, content io.Reader) (result R, err error) {
	err = (*route)(o).send(ctx, s, args, content, &result)
	return result, err
}

func (o *route) send(ctx context.Context, s *Server, args any, content io.Reader, result any) error {
	res, err := o.sendRequest(ctx, s, args, content)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err == nil {
		err = json.Unmarshal(data, result)
	}
	return err
}

// Open calls the operation, and returns its answer, which the caller closes.
func (o *Route[A, R]) Open(ctx context.Context, s *Server, args A) (io.ReadCloser, error) {
	res, err := (*route)(o).sendRequest(ctx, s, args, nil)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// Receive calls the operation for content, which the caller closes, and returns its media type. Reading incomplete
// content ends with an error.
func (o *Route[A, R]) Receive(ctx context.Context, s *Server, args A) (kind string, content io.ReadCloser, err error) {
	return (*route)(o).receive(ctx, s, args)
}

func (o *route) receive(ctx context.Context, s *Server, args any) (kind string, content io.ReadCloser, err error) {
	res, err := o.sendRequest(ctx, s, args, nil)
	if err != nil {
		return "", nil, err
	}
	content = &contents{res.Body, &Hashed{Reader: res.Body, End: func(sum []byte) error {
		if want, ok := Digest(res.Trailer); !ok || want != hex.EncodeToString(sum) {
			return errors.New("the received content does not have the SHA-256 that the server sent")
		}
		return nil
	}}}
	return res.Header.Get("Content-Type"), content, nil
}

// contents is the content of an answer, with its hash.
type contents struct {
	io.Closer
	*Hashed
}

func (o *route) sendRequest(ctx context.Context, s *Server, args any, content io.Reader) (*http.Response, error) {
	req, err := o.request(ctx, s.URL, args)
	if err != nil {
		return nil, err
	}
	if content != nil {
		req.Header.Set("Content-Type", o.Content)
		req.Trailer = http.Header{digestName: nil}
		body, closes := content.(io.ReadCloser)
		if !closes {
			body = io.NopCloser(content)
		}
		req.Body = &contents{body, &Hashed{Reader: body, End: func(sum []byte) error {
			req.Trailer.Set(digestName, digestOf(sum))
			return nil
		}}}
		defer context.AfterFunc(ctx, func() { req.Body.Close() })() // net/http waits for a blocked read
		req.ContentLength = -1
	}
	if s.Token != "" {
		req.Header.Set("Authorization", "Bearer "+s.Token)
	}
	resp, err := s.HTTP.Do(req)
	if err != nil && content != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // drop the URL, which means nothing to people
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	return nil, s.Failed(resp.StatusCode, data)
}

func (o *route) request(ctx context.Context, base string, args any) (*http.Request, error) {
	all := map[string]json.RawMessage{}
	b, err := json.Marshal(args)
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		return nil, err
	}
	method, path, _ := strings.Cut(o.Pattern, " ")
	for _, name := range inPath(o.Pattern) {
		path = strings.Replace(path, "{"+name+"}", url.PathEscape(plain(all[name])), 1)
		delete(all, name)
	}
	var body io.Reader
	if hasQueryArguments(method, o.Content) {
		query := url.Values{}
		for name, value := range all {
			var list []json.RawMessage
			if json.Unmarshal(value, &list) != nil {
				list = []json.RawMessage{value}
			}
			for _, one := range list {
				query.Add(name, plain(one))
			}
		}
		path += "?" + query.Encode()
	} else if b, err = json.Marshal(all); err == nil {
		body = bytes.NewReader(b)
	}
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, base+strings.TrimSuffix(path, "?"), body)
	if err == nil && body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

// plain formats a value for a path or a query.
func plain(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}

package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	pages "github.com/sandboxmcp/sandboxmcp/pipeline/web"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/egress/web"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/signer"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

var update = flag.Bool("update", false, "write testdata")

// newConfig builds a real pipeline, with its state in dir.
func newConfig(ctx context.Context, dir string) (cfg Config, end func(), err error) {
	return wireTo(ctx, dir, process.New(process.Config{StateDir: filepath.Join(dir, "state")}))
}

func wireTo(ctx context.Context, dir string, backend *process.Backend) (cfg Config, end func(), err error) {
	log, err := audit.Open(ctx, filepath.Join(dir, "audit.db"))
	if err != nil {
		return cfg, nil, err
	}
	store, err := results.Open(results.Config{Dir: filepath.Join(dir, "runs")})
	if err != nil {
		return cfg, nil, err
	}
	memory := vault.NewMemory()
	memory.Set("default", "TEST_SECRET", []byte("correct-horse-battery-staple"))
	broker := approval.New(approval.Config{Audit: log})
	keys, err := signer.OpenKeys(filepath.Join(dir, "keys"), nil)
	if err != nil {
		return cfg, nil, err
	}
	p := pipeline.New(pipeline.Config{
		RecordConfig: pipeline.RecordConfig{Keys: keys}, Backends: []backends.Backend{backend}, Audit: log, Vault: vault.New(memory),
		Results: store,
		Queue:   pipeline.NewQueue(8, 1000), Temp: filepath.Join(dir, "tmp"),
	})
	end = func() {
		p.Close()
		broker.Close()
		backend.Close()
		store.Close()
		log.Close()
	}
	return Config{Pipeline: p, Log: log, Results: store, Approvals: broker, Version: "test", Structured: true}, end,
		os.MkdirAll(filepath.Join(dir, "tmp"), 0o700)
}

// rig is a server with clients on pipes.
type rig struct {
	t   testing.TB
	cfg Config
	s   *Server
}

func newRig(t testing.TB, change func(*Config)) *rig {
	t.Helper()
	cfg, end, err := newConfig(context.Background(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	if change != nil {
		change(&cfg)
	}
	return &rig{t: t, cfg: cfg, s: New(cfg)}
}

// newFullRig returns a server with all tools on.
func newFullRig(t testing.TB, change func(*Config)) *rig {
	t.Helper()
	return newRig(t, func(cfg *Config) {
		p := pipeline.New(pipeline.Config{Audit: cfg.Log.(*audit.Log), Approvals: cfg.Approvals,
			Settings: []any{&pages.Config{Client: web.NewClient(web.Config{})}, &host.Config{Enabled: true}}})
		t.Cleanup(p.Close)
		cfg.Pipeline = p
		if change != nil {
			change(cfg)
		}
	})
}

// peer is a client that writes and reads raw lines.
type peer struct {
	t    testing.TB
	in   io.WriteCloser
	ids  int
	done chan struct{} // closed when Serve has returned
	stop context.CancelFunc

	mu         sync.Mutex
	answers    map[string]chan reply
	notes      chan reply // notifications
	asks       chan reply // requests of the server
	unexpected chan reply // responses without a waiting request
	lines      int
}

// reply is any message from the server.
type reply struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	line string
}

// connect starts a client that has not sent initialize.
func (r *rig) connect() *peer {
	ctx, stop := context.WithCancel(context.Background())
	fromClient, in := io.Pipe()
	out, toClient := io.Pipe()
	p := newPeer(r.t, in, out)
	p.stop = stop
	go func() {
		defer close(p.done)
		defer toClient.Close()
		if err := r.s.Serve(ctx, fromClient, toClient); err != nil {
			r.t.Errorf("serve: %v", err)
		}
	}()
	r.t.Cleanup(func() { p.close() })
	return p
}

func newPeer(t testing.TB, in io.WriteCloser, out io.Reader) *peer {
	p := &peer{t: t, in: in, ids: 1 << 20, done: make(chan struct{}), stop: func() {}, answers: map[string]chan reply{},
		notes: make(chan reply, 10000), asks: make(chan reply, 100), unexpected: make(chan reply, 10000)}
	go p.read(out)
	return p
}

// hello connects a client of a protocol, with capabilities as JSON.
func (r *rig) hello(version, capabilities string) *peer {
	p := r.connect()
	p.initialize(version, capabilities)
	return p
}

func (p *peer) initialize(version, capabilities string) reply {
	return p.initializeAs("test", version, capabilities)
}

func (p *peer) initializeAs(name, version, capabilities string) reply {
	got := p.call("initialize", fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":%q,"version":"1"}}`, version,
		capabilities, name))
	p.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return got
}

func (p *peer) read(out io.Reader) {
	b := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := b.ReadString('\n')
		if err != nil {
			return
		}
		m := reply{line: line}
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.Version != "2.0" {
			p.t.Errorf("stdout has a line that is not a message: %.200q", line)
			continue
		}
		p.mu.Lock()
		p.lines++
		to := p.answers[string(m.ID)]
		p.mu.Unlock()
		switch {
		case m.Method != "" && m.ID == nil:
			to = p.notes
		case m.Method != "":
			to = p.asks
		case to == nil:
			to = p.unexpected
		}
		select {
		case to <- m:
		default:
		}
	}
}

func (p *peer) write(line string) {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Logf("write: %v", err)
	}
}

// start sends a request, and returns its id and a channel for the response.
func (p *peer) start(method, params string) (string, chan reply) {
	p.mu.Lock()
	p.ids++
	id := fmt.Sprint(p.ids)
	answer := make(chan reply, 2)
	p.answers[id] = answer
	p.mu.Unlock()
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
	return id, answer
}

func (p *peer) call(method, params string) reply {
	p.t.Helper()
	_, answer := p.start(method, params)
	return p.wait(answer)
}

func (p *peer) wait(from chan reply) reply {
	p.t.Helper()
	return <-from
}

// result is the result of a tool call.
type result struct {
	Content []struct {
		Type, Text, Data, URI, Name, MIMEType string
		Size                                  int64
	} `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
	text       string
	facts      map[string]any
}

// tool calls a tool with arguments as JSON.
func (p *peer) tool(name, arguments string) result {
	p.t.Helper()
	return p.read1(p.call("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments)))
}

func (p *peer) read1(m reply) result {
	p.t.Helper()
	if m.Error != nil {
		p.t.Fatalf("error %d: %s", m.Error.Code, m.Error.Message)
	}
	var r result
	if err := json.Unmarshal(m.Result, &r); err != nil || len(r.Content) == 0 {
		p.t.Fatalf("no result: %v, %.500s", err, m.Result)
	}
	r.text = r.Content[0].Text
	if r.Structured == nil {
		return r
	}
	if err := json.Unmarshal(r.Structured, &r.facts); err != nil {
		p.t.Fatalf("no structured content: %v", err)
	}
	if r.facts["text"] != r.text {
		p.t.Errorf("the text is not in structuredContent: %q, %q", r.facts["text"], r.text)
	}
	return r
}

// close closes the client's side, and waits for the server's.
func (p *peer) close() {
	p.in.Close()
	<-p.done
	p.stop()
}

func contains(t testing.TB, text string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("got %q, want %q in it", text, want)
		}
	}
}

func pretty(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return raw
	}
	b.WriteByte('\n')
	return b.Bytes()
}

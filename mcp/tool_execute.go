package mcp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

const aboutExecute = `Runs code in a sandbox and returns exit code, stdout, stderr, value, images and the files that it left. ` +
	`Without session_id each call starts clean; with one, variables, imports and files of earlier calls are there. ` +
	`The value of the last expression is returned as in a notebook, in Python also without a session; so are figures, and small PNG and JPEG files that it saves. ` +
	`The working directory is /workspace; files left there are artifacts. ` +
	`It reaches only hosts that the operator's configuration or a person allows, and no addresses.`

type executeArgs struct {
	Code     string   `json:"code" about:"The source code to run. Needed, unless request_id goes on with code that waits."`
	Language language `json:"language" about:"Language of the code. Default: the session's, or python."`
	Session  string   `json:"session_id" about:"A session from create_session to run in. Default: a sandbox of its own that is gone afterwards." range:"..64"`
	onBackend
	Timeout float64                   `json:"timeout" about:"Seconds after which it is ended, as resource_limits.timeout_seconds." range:"0.001..86400"`
	Allow   []string                  `json:"allowed_domains" about:"Hosts that the code may reach, and no others, if policy or a person agrees. Default: what the operator allows, or the session may reach. [] is no network." range:"..100" each:"A host: \"example.com\", \"*.example.com\" or \"example.com:5432\"." eachrange:"..300"`
	Secrets []string                  `json:"secrets" about:"Names of the operator's secrets. Each becomes an environment variable, and is taken out of all output." range:"..100" each:"A secret's name." eachrange:"..200"`
	Data    []string                  `json:"data" about:"Names of directories of data, which list_runtimes lists: each is shown read-only as /data/NAME. In a session, create_session takes them." range:"..32" each:"A directory's name." eachrange:"..32"`
	Env     map[string]operation.Text `json:"env" about:"Environment variables." range:"..1000" each:"Its value." such:"DEBUG"`
	Args    []operation.Text          `json:"args" about:"Arguments of the program." range:"..10000" each:"One argument."`
	Stdin   string                    `json:"stdin" about:"Text for its standard input. Default: empty."`
	Files   fileArgs                  `json:"files" about:"Files to put into the working directory first: name to content, such as {\"data.csv\": \"a,b\\n1,2\"}. Binary content is written as a data URL: \"data:;base64,iVBORw0...\". What an earlier run left is named instead, by an object: {\"request_id\": \"01K...\", \"artifact\": \"data.csv\"}." range:"..1000" each:"The file's text, or a data URL with base64." such:"notes"`
	limited
	inNamespace
	Run        string       `json:"request_id" about:"Goes on with code that waits for tool results: its request_id." range:"..64"`
	Results    []resultArgs `json:"tool_results" about:"The results of the calls that it waits for." range:"..128" each:"The result of one call."`
	Background bool         `json:"background" about:"Returns at once with a request_id; inspect_state tells how it goes, terminate_session with it as session_id ends it." default:"false"`
}

// runFacts describe a run.
type runFacts struct {
	common
	outcome
}

type outcome struct {
	RequestID    string             `json:"request_id,omitempty" about:"The run's id: get_artifacts, inspect_state and audit_execution take it."`
	State        string             `json:"state,omitempty" about:"done, waiting for the results of tool_calls, or running for a run in the background."`
	ToolCalls    []pendingCall      `json:"tool_calls,omitempty" about:"Calls of the session's tools that wait for results: carry them out, and call execute_code with request_id and tool_results."`
	Namespace    string             `json:"namespace,omitempty" about:"The namespace that it belongs to."`
	SessionID    string             `json:"session_id,omitempty" about:"The session that it ran in."`
	Language     string             `json:"language,omitempty" about:"The language of the code."`
	Backend      string             `json:"backend,omitempty" about:"What contained it."`
	Profile      string             `json:"profile,omitempty" about:"The containment profile."`
	Ended        string             `json:"ended,omitempty" about:"How it ended: ok, exit, signal, timeout, oom, limit, refused or cancelled."`
	ExitCode     *int               `json:"exit_code,omitempty" about:"The exit code; 0 is success."`
	Signal       string             `json:"signal,omitempty" about:"The signal that killed it."`
	Limit        string             `json:"limit,omitempty" about:"The limit that ended it."`
	LimitsHit    []string           `json:"limits_hit,omitempty" about:"Limits that it ran into."`
	Stdout       string             `json:"stdout,omitempty" about:"Its standard output, or head and tail of a long one."`
	Stderr       string             `json:"stderr,omitempty" about:"Its standard error, or head and tail of a long one."`
	StdoutBytes  int64              `json:"stdout_bytes" about:"Bytes that it wrote to standard output."`
	StderrBytes  int64              `json:"stderr_bytes" about:"Bytes that it wrote to standard error."`
	StdoutURI    string             `json:"stdout_uri,omitempty" about:"The resource with the whole standard output, where it is not all shown."`
	StderrURI    string             `json:"stderr_uri,omitempty" about:"The resource with the whole standard error, where it is not all shown."`
	StdoutLost   int64              `json:"stdout_lost,omitempty" about:"Bytes of standard output beyond max_output_bytes, which are gone."`
	StderrLost   int64              `json:"stderr_lost,omitempty" about:"Bytes of standard error beyond max_output_bytes, which are gone."`
	Value        *display           `json:"value,omitempty" about:"The value of the last expression, in a session or in Python."`
	Displays     []display          `json:"displays,omitempty" about:"What the code displayed: images, tables."`
	ProgramError *programError      `json:"program_error,omitempty" about:"The error that ended the code, in a session."`
	StateLost    string             `json:"state_lost,omitempty" about:"Why the session's variables are gone."`
	Packages     []packages.Package `json:"packages,omitempty" about:"What was installed."`
	Artifacts    []artifactFacts    `json:"artifacts,omitempty" about:"Files that it left in its working directory."`
	Egress       []egressDecision   `json:"egress,omitempty" about:"Hosts that it tried to reach, each once."`
	EgressMore   int                `json:"egress_more,omitempty" about:"How many more hosts than these it tried to reach; audit_execution lists them."`
	Layers       []string           `json:"layers,omitempty" about:"Layers of containment that held it."`
	Missing      []string           `json:"missing_layers,omitempty" about:"Layers that did not hold it."`
	WallMS       float64            `json:"wall_ms" about:"Milliseconds that the program took."`
	CPUMS        float64            `json:"cpu_ms" about:"Milliseconds of CPU time, of all its processes."`
	TotalMS      float64            `json:"total_ms" about:"Milliseconds from request to result."`
	QueueMS      float64            `json:"queue_ms" about:"Milliseconds that it waited for its turn."`
	Warm         bool               `json:"warm,omitempty" about:"True if a sandbox stood ready for it, outside of sessions."`
	Cold         string             `json:"cold,omitempty" about:"Why none did, where sandboxes are kept ready."`
	PeakMemory   int64              `json:"peak_memory_bytes" about:"The most memory that it had at once."`
	Receipt      string             `json:"receipt_sha256,omitempty" about:"The SHA-256 of its signed receipt, which get_artifacts returns as receipt.intoto.json."`
	Hints        []string           `json:"hints,omitempty" about:"What to do differently."`
	Warnings     []string           `json:"warnings,omitempty" about:"What was not as it should be."`
}

type display struct {
	Text  string   `json:"text" about:"It as text." required:"true"`
	HTML  string   `json:"html,omitempty" about:"It as HTML, if that is not too long."`
	JSON  string   `json:"json,omitempty" about:"It as JSON, if that is not too long."`
	Types []string `json:"types" about:"The MIME types that it has; images are in content."`
}

type programError struct {
	Type      string `json:"type" about:"The error's type, such as ValueError."`
	Message   string `json:"message" about:"What it says."`
	Traceback string `json:"traceback" about:"Where it happened."`
}

type artifactFacts struct {
	Name     string `json:"name" about:"The file's name, relative to the working directory."`
	Size     int64  `json:"size" about:"Its bytes."`
	SHA256   string `json:"sha256" about:"Its SHA-256."`
	MIME     string `json:"mime" about:"Its type."`
	URI      string `json:"uri,omitempty" about:"The resource to read it by."`
	Withheld string `json:"withheld,omitempty" about:"Why it is not handed out."`
}

// factsOfFile describes a file that a run left, and where it is if it is stored.
func factsOfFile(run string, a signer.Artifact, stored bool) artifactFacts {
	f := artifactFacts{Name: readable(a.Name), Size: a.Size, SHA256: a.SHA256, MIME: a.MIME, Withheld: a.Withheld}
	if stored && a.Withheld == "" {
		f.URI = fileURI(run, a.Name)
	}
	return f
}

func (f artifactFacts) String() string {
	if f.Withheld != "" {
		return fmt.Sprintf("%s, %s, withheld: %s", f.Name, size(f.Size), f.Withheld)
	}
	return fmt.Sprintf("%s, %s, %s", f.Name, size(f.Size), kindOfFile(f.MIME))
}

type egressDecision struct {
	Name     string `json:"name" about:"The host."`
	Port     int    `json:"port" about:"The port; 0 where only its name was looked up."`
	Allowed  bool   `json:"allowed" about:"Whether it may be reached."`
	Failed   bool   `json:"failed,omitempty" about:"It may be reached, and no connection came about."`
	Reason   string `json:"reason" about:"Why."`
	Ask      string `json:"ask,omitempty" about:"What request_egress is to ask for, if a person may allow it."`
	Count    int64  `json:"count" about:"How often: connections, or look-ups where port is 0."`
	Sent     int64  `json:"sent" about:"Bytes sent to it."`
	Received int64  `json:"received" about:"Bytes received from it."`
}

func (s *Server) executeCode(ctx context.Context, c *call, a *executeArgs) (*answer, error) {
	if a.Run != "" || len(a.Results) > 0 {
		return s.resume(ctx, c, a)
	}
	if a.Code == "" {
		return nil, operation.Wrong("code", "is missing or empty: send code, or request_id to go on with code that waits")
	}
	q, err := request(c, a)
	if err != nil {
		return nil, err
	}
	q.Client = c.clientName()
	if a.Background {
		return s.runBehind(ctx, q), nil
	}
	if s.callsBack(q.Namespace, q.Session) {
		return s.beginCalling(ctx, q)
	}
	if w := c.progress.lines(); w != nil {
		q.Stdout, q.Stderr = w, c.progress.lines()
	}
	q.Ask = s.asker(ctx, c)
	_, res, err := pipeline.Do(ctx, s.cfg.Pipeline, q)
	for _, w := range res.Warnings {
		c.warn(w.In(wordsOf(c.called.Name)))
	}
	return s.ran(res, err), nil
}

// warn sends the client's log a line, if it wants it.
func (m *message) warn(text string) {
	if !mcp.LoggingLevelWarning.ShouldSendTo(m.client().logs) {
		return
	}
	// One that can't be sent, since the client does not read, is in the result, too.
	m.to.notify("notifications/message", mcp.NotificationParams{AdditionalFields: map[string]any{
		"level": mcp.LoggingLevelWarning, "logger": "sandboxmcp", "data": readable(text),
	}})
}

// request makes the pipeline's request out of the arguments.
func request(c *call, a *executeArgs) (pipeline.Request, error) {
	q := pipeline.Request{
		Namespace: c.namespace, Language: string(a.Language), Code: source(a.Code), Show: true, Where: pipeline.Where{Session: a.Session, Backend: a.Backend},
		Reach: pipeline.Reach{Secrets: a.Secrets, Allow: a.Allow}, HostFiles: pipeline.HostFiles{Data: a.Data},
	}
	var err error
	if q.Language == "" && q.Session == "" {
		q.Language = "python"
	}
	for _, one := range a.Args {
		q.Args = append(q.Args, string(one))
	}
	b := a.Limits.bounds()
	if t := seconds(a.Timeout); t > 0 && (b.Wall == 0 || t < b.Wall) {
		b.Wall = t
	}
	q.Limits, q.Output = b.Limits, b.Output
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") { // "A=B" would set A
			return q, operation.Wrong("env", "%q can't be the name of a variable", clip(name, 80))
		}
		q.Env = append(q.Env, name+"="+string(a.Env[name]))
	}
	if a.Stdin != "" {
		q.Stdin = strings.NewReader(a.Stdin)
	}
	q.Inputs, err = a.Files.inputs()
	return q, err
}

// source is code as interpreters want it: without a byte order mark, and with line ends of Unix if all
// of them are those of Windows. Python and JavaScript read both alike; a shell takes the CR as a letter.
func source(code string) []byte {
	code = strings.TrimPrefix(code, "\ufeff")
	if n := strings.Count(code, "\n"); n > 0 && n == strings.Count(code, "\r\n") {
		code = strings.ReplaceAll(code, "\r\n", "\n")
	}
	return []byte(code)
}

// runBehind starts a run in the background.
func (s *Server) runBehind(ctx context.Context, q pipeline.Request) *answer {
	id, _ := s.cfg.Pipeline.Begin(ctx, q)
	s.runs.note(id)
	return &answer{
		text: "running in the background, request_id: " + id + "\nwhat to do: inspect_state with this request_id tells how it goes and, when it is done, the result; " +
			"terminate_session with it as session_id ends it",
		facts: &runFacts{outcome: outcome{RequestID: id, State: "running", Namespace: q.Namespace, SessionID: q.Session, Language: q.Language}},
	}
}

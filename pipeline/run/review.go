package run

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// Review is an operator's policy for dangerous code. The zero value runs all code: containment does not depend on how
// code looks.
type Review struct {
	Reject string   // "low", "medium" or "high": code with a finding at least as severe is refused; "" refuses none
	Off    []string // rules that are switched off
}

// review refuses dangerous code where policy says so.
func review(ctx context.Context, p *pipeline.Pipeline, c plan) error {
	if pipeline.PackageSettings[Review](p).Reject == "" {
		return nil
	}
	code := validate.Code{Language: c.program.Language, Name: c.program.Name, Source: c.unfenced}
	switch {
	case c.request.Command != nil:
		code.Language, code.Name = validate.Shell, ""
	case code.Language == validate.Command: // of a first line that names another interpreter
		code.Language, code.Name = c.request.Language, c.request.Name
	}
	report, err := analyze(ctx, p, code, validate.Options{Cell: c.session != nil, Notebook: c.request.Show || c.session != nil})
	if err != nil {
		return pipeline.WrapError(pipeline.StageValidate, fmt.Errorf("policy requires a review, and the code can't be reviewed: %w", err))
	}
	var found []string
	for _, d := range report.AtLeast(pipeline.PackageSettings[Review](p).Reject) {
		found = append(found, fmt.Sprintf("line %d: %s (%s, %s)", d.Line, d.Reason, d.Rule, d.Severity))
	}
	if found == nil {
		return nil
	}
	e := pipeline.Refuse(pipeline.StageValidate, "policy refuses code with these findings: "+strings.Join(found, "; "),
		"change the code, or ask the operator to change validate.reject_dangerous or validate.rules_off")
	return e.WithLogReason(fmt.Sprintf("policy refuses code with findings of severity %s: %d", pipeline.PackageSettings[Review](p).Reject,
		len(found)))
}

// Analyze reports errors in code, missing modules, and dangerous patterns, without running it. The interpreter that
// would run Python code parses it, in a sandbox. The pipeline sets RulesOff and Python of the options.
func Analyze(ctx context.Context, p *pipeline.Pipeline, code validate.Code, o validate.Options) (validate.Report, error) {
	report, err := analyze(ctx, p, code, o)
	if err != nil && !errors.As(err, new(*pipeline.Error)) {
		err = pipeline.WrapError(pipeline.StageValidate, err)
	}
	return report, err
}

func analyze(ctx context.Context, p *pipeline.Pipeline, code validate.Code, o validate.Options) (validate.Report, error) {
	o.RulesOff, o.Python = pipeline.PackageSettings[Review](p).Off, asker{p}
	return validate.Analyze(ctx, code, o)
}

// asker parses Python code in a sandbox.
type asker struct{ p *pipeline.Pipeline }

// Analyse implements validate.Interpreter.
func (a asker) Analyse(ctx context.Context, request []byte) ([]byte, error) {
	return stateOf(a.p).analysers.analyse(ctx, a.p, request)
}

// analysers keeps one sandboxed interpreter, which parses code, for the next request.
type analysers struct {
	mu     sync.Mutex
	closed bool
	now    *analyser
	idle   *time.Timer // ends the interpreter after analyserIdle
}

// analyserIdle bounds the time that an interpreter is kept without a request.
const analyserIdle = 5 * time.Minute

// analyserWall bounds one answer. A parser needs milliseconds.
const analyserWall = 20 * time.Second

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 64 << 20

func (a *analysers) analyse(ctx context.Context, p *pipeline.Pipeline, request []byte) (answer []byte, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for range 2 { // an idle interpreter may have died: retry with a new one
		fresh := a.now == nil
		if a.closed {
			return nil, ErrClosed
		}
		if fresh {
			if a.now, err = startAnalyser(ctx, p); err != nil {
				return nil, err
			}
		}
		if answer, err = a.now.analyse(ctx, request); err == nil {
			if a.idle != nil {
				a.idle.Stop()
			}
			a.idle = time.AfterFunc(analyserIdle, a.drop)
			return answer, nil
		}
		a.now.close()
		a.now = nil
		if fresh || ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

func (a *analysers) drop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now != nil {
		a.now.close()
		a.now = nil
	}
}

func (a *analysers) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.drop()
}

// analyser is an interpreter in a sandbox of its own.
type analyser struct {
	sandbox backends.Sandbox
	channel io.ReadWriteCloser
	ended   chan error
}

// startAnalyser starts an interpreter in a sandbox to parse code.
func startAnalyser(ctx context.Context, p *pipeline.Pipeline) (*analyser, error) {
	c, err := containment.Choose(p, "", "", nil)
	if err != nil {
		return nil, err
	}
	sandbox, err := c.Backend.Start(ctx, backends.Spec{ID: pipeline.NewID(), Language: validate.Python, Profile: c.Base, Require: c.Requires,
		Keep:   true,
		Limits: backends.Limits{RAM: 512 << 20, CPU: 1, Processes: 4, Disk: 16 << 20}})
	if err != nil {
		return nil, err
	}
	a := &analyser{sandbox: sandbox, ended: make(chan error, 1)}
	opened := make(chan struct{})
	go func() {
		_, err := sandbox.Exec(context.WithoutCancel(ctx), backends.Command{
			Args: []string{"python", "-I", "-S", "-c", validate.PythonAnalyser()}, Main: true,
		}, backends.Streams{Channel: func(c io.ReadWriteCloser) { a.channel = c; close(opened) }})
		a.ended <- err
	}()
	select {
	case <-opened:
		return a, nil
	case err := <-a.ended:
		sandbox.Close()
		return nil, fmt.Errorf("start the parser: %w", err)
	}
}

// analyse sends one request and reads the answer. Each is preceded by its length: four bytes, big-endian.
func (a *analyser) analyse(ctx context.Context, request []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, analyserWall)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { a.channel.Close() })
	defer stop()
	answer, err := a.exchange(request)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("the parser does not answer: %w", ctx.Err())
	}
	if err != nil {
		return nil, fmt.Errorf("the parser died: %w", err)
	}
	return answer, nil
}

func (a *analyser) exchange(request []byte) ([]byte, error) {
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)
	if _, err := a.channel.Write(frame); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(a.channel, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxAnswer {
		return nil, fmt.Errorf("the answer has %d bytes, more than the maximum", n)
	}
	answer := make([]byte, n)
	_, err := io.ReadFull(a.channel, answer)
	return answer, err
}

func (a *analyser) close() {
	a.channel.Close()
	a.sandbox.Close()
	<-a.ended
}

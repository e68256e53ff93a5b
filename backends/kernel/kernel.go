// Package kernel keeps an interpreter running inside a sandbox, so that each piece of code finds the variables,
// imports, files and threads of earlier ones.
//
// A driver for each language runs in the interpreter and speaks length-prefixed JSON on a private descriptor.
// Programs write to the standard streams, so no printed text can pass for a reply.
package kernel

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// Kernel is a running interpreter. Its methods may be called concurrently; cells run one at a time.
type Kernel struct {
	lock    chan struct{} // holds one token, whose owner may talk to the driver
	id      int64         // of the last request
	channel io.ReadWriteCloser
	codec   codec
	ops     []string // operations named by its ready
	replies chan reply
	large   chan struct{} // sent to before a large frame is read; only a waiting request receives

	out, err  *cutter
	interrupt chan struct{}
	kill      context.CancelFunc
	begun     chan struct{} // closed when contained is known
	contained backends.Containment

	done  chan struct{}
	death backends.Result
	fault error // error of starting it, or the driver's violation for which it was killed
}

// exitTimeout bounds the time that an interpreter has to exit after it closed its channel, before it is killed.
const exitTimeout = 2 * time.Second

// Start starts the driver of a language ("python", "node", "shell", "r"), and waits until it is ready. as adds
// environment, directory and lifetime to the sandbox's: several interpreters can run in one sandbox if they are
// Endless.
func Start(ctx context.Context, sb backends.Sandbox, name string, as backends.Command) (*Kernel, error) {
	lang, ok := languageNamed(name)
	if !ok {
		return nil, fmt.Errorf("no kernel for language %q", name)
	}
	return start(ctx, sb, lang, as)
}

func start(ctx context.Context, sb backends.Sandbox, lang language, as backends.Command) (*Kernel, error) {
	source, err := lang.codec.driver(lang.driver)
	if err != nil {
		return nil, fmt.Errorf("encode the %s driver: %w", lang.name, err)
	}
	// The interpreter outlives this call and ctx.
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	k := &Kernel{
		lock: make(chan struct{}, 1), codec: lang.codec, replies: make(chan reply), large: make(chan struct{}),
		out: &cutter{}, err: &cutter{}, interrupt: make(chan struct{}, 1),
		kill: kill, begun: make(chan struct{}), done: make(chan struct{}),
	}
	as.Args, as.Env = lang.args, append(slices.Clone(lang.env), as.Env...)
	go k.runInterpreter(life, sb, as, source)
	if err := k.awaitReady(ctx); err != nil {
		k.Close()
		return nil, fmt.Errorf("start the %s kernel: %w", lang.name, err)
	}
	k.lock <- struct{}{}
	return k, nil
}

// runInterpreter runs the interpreter and returns when it has ended.
func (k *Kernel) runInterpreter(ctx context.Context, sb backends.Sandbox, as backends.Command, source []byte) {
	defer close(k.done)
	var fault error
	var talk sync.WaitGroup
	result, err := sb.Exec(ctx, as, backends.Streams{
		Stdout: k.out, Stderr: k.err, Interrupt: k.interrupt,
		Channel: func(c io.ReadWriteCloser) {
			k.channel = c
			if len(source) > 0 {
				talk.Go(func() { c.Write(source) })
			}
			talk.Go(func() { fault = k.readReplies(ctx, c) })
		},
		Begun: func(c backends.Containment) {
			k.contained = c
			close(k.begun)
		},
	})
	k.kill()
	if k.channel != nil {
		k.channel.Close()
	}
	talk.Wait()
	k.out.release()
	k.err.release()
	k.death, k.fault = result, cmp.Or(err, fault)
}

// readReplies forwards the driver's replies until the channel ends. It returns the driver's violation of the
// protocol, if that ended it.
func (k *Kernel) readReplies(ctx context.Context, c io.Reader) error {
	next := readFrame
	if _, own := k.codec.(lineCodec); own {
		c, next = bufio.NewReader(c), readLine
	}
	for {
		answer, err := next(c, k.codec, func() error { return k.awaitRequest(ctx) })
		if err != nil {
			return k.handleChannelEnd(ctx, err)
		}
		select {
		case k.replies <- answer:
		case <-ctx.Done():
			return nil
		}
	}
}

// awaitRequest returns when a request waits for a reply.
func (k *Kernel) awaitRequest(ctx context.Context) error {
	select {
	case k.large <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// handleChannelEnd ends an interpreter whose channel has failed. It first waits exitTimeout for an interpreter that
// is exiting: the exit status is part of the result.
func (k *Kernel) handleChannelEnd(ctx context.Context, err error) error {
	if strings.HasPrefix(err.Error(), "protocol: ") {
		k.kill()
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(exitTimeout):
		k.kill()
		return errors.New("protocol: the interpreter closed its channel")
	}
}

// awaitReady waits until the driver reports that it is ready.
func (k *Kernel) awaitReady(ctx context.Context) error {
	select {
	case r := <-k.replies:
		if r.Op != "ready" {
			return fmt.Errorf("protocol: the driver began with %q", r.Op)
		}
		<-k.begun // a driver starts after it is contained
		for op := range moreOps {
			if slices.Contains(r.Ops, op) {
				k.ops = append(k.ops, op)
			}
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-k.done:
		if k.fault != nil {
			return k.fault
		}
		output := strings.TrimSpace(k.out.betweenText() + "\n" + k.err.betweenText())
		return fmt.Errorf("it ended (%s, exit code %d) before it was ready: %s", k.death.Ended, k.death.ExitCode, output)
	}
}

// Contained returns the interpreter's containment.
func (k *Kernel) Contained() backends.Containment { return k.contained }

// Done is closed when the interpreter has ended; then Death returns its result.
func (k *Kernel) Done() <-chan struct{} { return k.done }

// Death returns the result of the interpreter's process, once Done is closed. Its error is the driver's violation
// of the protocol, for which it was killed.
func (k *Kernel) Death() (backends.Result, error) {
	<-k.done
	return k.death, k.fault
}

// Close ends the interpreter, and all processes of the sandbox if it is the main program, and waits for their end.
func (k *Kernel) Close() error {
	k.kill()
	<-k.done
	return nil
}

package packages

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// ownBackend is the backend that runs the interpreters of this host, which share the configuration of their package
// manager. All others use those of an image.
const ownBackend = "process"

// kind returns the kind of interpreters that a layer is for, such as
// "python3.11-cpython-311-x86_64-linux-gnu-glibc2.36", or "node20-115-arm64-musl1.2.4-docker": compiled packages fit
// no other version, ABI, machine or C library, and packages of an image were fetched by its package manager, which
// this host's programs need not trust. The interpreter reports its kind itself, in a sandbox: with the id of an
// image, each update of it would lose all packages. So images that an engine is configured with successively share
// layers if their interpreters are alike.
func (s *Store) kind(ctx context.Context, b backends.Backend, language string) (string, error) {
	// The image of a name may change, and so may this host's Python.
	if known, ok := s.kinds.Get(b.Name()+" "+language, rememberFor); ok {
		return known, nil
	}
	return s.freshKind(ctx, b, language)
}

// freshKind queries the interpreter again: otherwise an install could be for an interpreter that is gone.
func (s *Store) freshKind(ctx context.Context, b backends.Backend, language string) (string, error) {
	reported, err := askInside(ctx, b, language)
	if err != nil && ctx.Err() == nil && !errors.As(err, new(*backends.Refusal)) {
		if _, none := probed(ctx, b, language); none != nil {
			err = none
		}
	}
	if err != nil {
		return "", fmt.Errorf("ask %s for its kind: %w", language, err)
	}
	kind := language + reported
	if b.Name() != ownBackend {
		kind += "-" + b.Name()
	}
	if !kindName().MatchString(kind) {
		return "", fmt.Errorf("%s has an invalid kind: %q", language, shorten(reported))
	}
	s.kinds.Store(b.Name()+" "+language, kind)
	return kind, nil
}

// kindName matches kinds that are safe as the name of a directory: a part is the interpreter's own output.
var kindName = lazy.Regexp(`^(python[0-9]+\.[0-9]+|node[0-9]+)-[A-Za-z0-9_.-]{1,100}$`)

// askInside returns the output of the language's kind command, in a new sandbox without other code.
func askInside(ctx context.Context, b backends.Backend, language string) (string, error) {
	sandbox, err := b.Start(ctx, backends.Spec{ID: rand.Text(), Language: language, Limits: backends.Limits{Wall: askTime}})
	if err != nil {
		return "", err
	}
	defer sandbox.Close()
	var out, trouble bytes.Buffer
	result, err := sandbox.Exec(ctx, backends.Command{Args: managers()[language].kind, Dir: "/tmp"},
		backends.Streams{Stdout: &out, Stderr: &trouble})
	switch {
	case err != nil:
		return "", err
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case result.Ended != backends.EndedOK:
		return "", fmt.Errorf("it ended with %s %d: %s", result.Ended, result.ExitCode, shorten(strings.TrimSpace(trouble.String())))
	}
	return strings.TrimSpace(out.String()), nil
}

// probed returns a backend's description of a language's interpreter. A missing one is a *backends.Refusal.
func probed(ctx context.Context, b backends.Backend, language string) (backends.Runtime, error) {
	p, err := b.Probe(ctx, backends.Spec{ID: rand.Text(), Language: language})
	if err != nil {
		return backends.Runtime{}, err
	}
	for _, r := range p.Runtimes {
		switch {
		case r.Name == language && r.Path == "":
			return r, backends.Refuse("no " + language + ": " + r.Why.String())
		case r.Name == language:
			return r, nil
		}
	}
	return backends.Runtime{}, backends.Refuse("the backend " + b.Name() + " has no " + language)
}

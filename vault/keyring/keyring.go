// Package keyring keeps short texts in the keyring of the operating system: the Secret Service of a
// Linux desktop, the Keychain of macOS, the Credential Manager of Windows.
//
// It speaks to them with go-keyring, the one library that does so on all three without cgo.
package keyring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zalando/go-keyring"
)

var (
	// ErrNotFound is the error of Get and Delete for an item that the keyring does not hold.
	ErrNotFound = errors.New("not in the keyring of the operating system")

	// ErrUnavailable is wrapped by all errors of a keyring that can't be used. Their text says how to make it usable.
	ErrUnavailable = errors.New("the keyring of the operating system can't be used")
)

// Wait is the time limit of a call. A keyring that asks a person for its password takes longer: the prompt stays, and
// once it is answered the next call succeeds.
const Wait = 5 * time.Second

// maxAbandoned is the maximum number of calls under way in a Ring. A call of go-keyring can't be cancelled, only
// abandoned: more calls would pile up behind a keyring that hangs.
const maxAbandoned = 4

// Ring is the keyring of the user of this process. Many goroutines may use one at once.
type Ring struct {
	slots chan struct{}
}

// New returns the keyring, without calling it.
func New() *Ring {
	return &Ring{make(chan struct{}, maxAbandoned)}
}

// Get returns the text that is stored under these names.
func (r *Ring) Get(ctx context.Context, service, user string) (string, error) {
	return r.callWithin(ctx, func() (string, error) { return keyring.Get(service, user) })
}

// Set stores a text, replacing an older one. After an error the text may be stored all the same, by a keyring that
// answers late.
func (r *Ring) Set(ctx context.Context, service, user, text string) error {
	_, err := r.callWithin(ctx, func() (string, error) { return "", keyring.Set(service, user, text) })
	return err
}

// Delete removes a text.
func (r *Ring) Delete(ctx context.Context, service, user string) error {
	_, err := r.callWithin(ctx, func() (string, error) { return "", keyring.Delete(service, user) })
	return err
}

// callWithin makes a call, and abandons it after Wait.
func (r *Ring) callWithin(ctx context.Context, call func() (string, error)) (string, error) {
	if err := checkReachable(); err != nil {
		return "", err
	}
	ctx, stop := context.WithTimeoutCause(ctx, Wait, errTimeout)
	defer stop()
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		defer func() { <-r.slots }()
		defer func() { // go-keyring panics on malformed answers
			if fault := recover(); fault != nil {
				answers <- answer{err: fmt.Errorf("it hung up: %v", fault)}
			}
		}()
		text, err := call()
		answers <- answer{text, err}
	}()
	select {
	case a := <-answers:
		return a.text, explain(a.err)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

const useFileInstead = "or keep secrets in a file, with the store sealed and vault rekey file"

var errTimeout = fmt.Errorf("%w: it has not answered for %v; if it asks for its password, answer and try again, %s", ErrUnavailable, Wait,
	useFileInstead)

// explain translates the known errors of the keyring.
func explain(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) {
		return err
	}
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(strings.ToLower(err.Error()), w) })
	}
	switch {
	case errors.Is(err, keyring.ErrNotFound):
		return ErrNotFound
	case errors.Is(err, keyring.ErrSetDataTooBig):
		return errors.New("it is too long for the keyring of this system: use the store sealed")
	case has("failed to unlock", "islocked", "is locked", "dismissed", "prompter"):
		return fmt.Errorf("%w: it is locked: unlock it in the desktop's keyring program, or with gnome-keyring-daemon --replace --unlock, %s",
			ErrUnavailable, useFileInstead)
	case has("not provided by any .service", "serviceunknown", "has no owner", "activate", "exited with status"):
		return fmt.Errorf("%w: no program offers it on the session bus: start one, such as gnome-keyring-daemon --unlock, %s", ErrUnavailable,
			useFileInstead)
	case has("aliases/default", "no such object", "object does not exist"):
		return fmt.Errorf("%w: it has no default collection: make one in the desktop's keyring program, %s", ErrUnavailable, useFileInstead)
	case has("connect:", "dial unix", "connection refused", "closed by user", "eof", "authentication"):
		return fmt.Errorf("%w: the session bus can't be reached (%v): log in to a session, or start one with dbus-run-session, %s",
			ErrUnavailable, err, useFileInstead)
	}
	return fmt.Errorf("%w: %v", ErrUnavailable, err)
}

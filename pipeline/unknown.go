package pipeline

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/vault"
	"github.com/sandboxmcp/sandboxmcp/vault/tokens"
)

// Policies for text that looks like a token which is not in the vault.
const (
	UnknownWarn = "warn" // the result and the log name the kinds found; "" is the same
	UnknownMask = "mask" // they are masked as well
	UnknownOff  = "off"  // no search
)

// TokenFinder finds such tokens in the text of one run. It may be used concurrently.
type TokenFinder struct {
	Policy string
	mu     sync.Mutex
	kinds  []string
}

func (u *TokenFinder) addKind(kind string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !slices.Contains(u.kinds, kind) {
		u.kinds = append(u.kinds, kind)
	}
}

// foundKinds returns the kinds that were found, such as "a GitHub token".
func (u *TokenFinder) foundKinds() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.kinds)
}

// writer returns a writer that passes text on to w. Closing it flushes held-back text, and does not close w.
func (u *TokenFinder) writer(w io.Writer) io.WriteCloser {
	if u.Policy == UnknownOff {
		return vault.Leases(nil).Writer(w) // passes all text on
	}
	return tokens.NewWriter(w, u.Policy == UnknownMask, u.addKind)
}

// cleanText masks tokens in text if the policy is UnknownMask, and records their kinds.
func (u *TokenFinder) cleanText(text string) string {
	if u.Policy == UnknownOff || !tokens.MayContain(text) {
		return text
	}
	var b strings.Builder
	w := u.writer(&b)
	_, _ = io.WriteString(w, text) // a Builder never fails
	_ = w.Close()
	return b.String()
}

// ScanFile searches a file, passes it on to others unless that is nil, and reports whether the file must be withheld.
func (u *TokenFinder) ScanFile(r io.Reader, others func(io.Reader) (bool, error)) (withhold bool, err error) {
	here := TokenFinder{Policy: u.Policy}
	w := here.writer(io.Discard)
	if others == nil {
		_, err = io.Copy(w, r)
	} else {
		withhold, err = others(io.TeeReader(r, w))
	}
	_ = w.Close()
	for _, kind := range here.foundKinds() {
		u.addKind(kind)
		withhold = withhold || u.Policy == UnknownMask
	}
	return withhold, err
}

// Warning returns a warning that names the kinds of tokens found, or "".
func (u *TokenFinder) Warning() string {
	kinds := u.foundKinds()
	if len(kinds) == 0 {
		return ""
	}
	text := "its output or files contain text that looks like " + strings.Join(kinds, ", ") + " and is not from the vault"
	if u.Policy == UnknownMask {
		text += ": it was masked, and files with it are withheld"
	}
	return fmt.Sprintf("%s (redact.unknown: %s)", text, cmp.Or(u.Policy, UnknownWarn))
}

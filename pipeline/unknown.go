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

// What becomes of text that looks like a token which is in no vault.
const (
	UnknownWarn = "warn" // the result and the log say which kinds there were; so does ""
	UnknownMask = "mask" // and they are taken out
	UnknownOff  = "off"  // nobody looks
)

// TokenFinder finds such tokens in what one run says. Many goroutines may use it at once.
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

// foundKinds are the kinds that were found, such as "a GitHub token".
func (u *TokenFinder) foundKinds() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.kinds)
}

// writer passes text on to w. Closing it lets out what it held back, and does not close w.
func (u *TokenFinder) writer(w io.Writer) io.WriteCloser {
	if u.Policy == UnknownOff {
		return vault.Leases(nil).Writer(w) // which lets all text pass
	}
	return tokens.NewWriter(w, u.Policy == UnknownMask, u.addKind)
}

// cleanText returns text as policy wants it.
func (u *TokenFinder) cleanText(text string) string {
	if u.Policy == UnknownOff || !tokens.MayContain(text) {
		return text
	}
	var b strings.Builder
	w := u.writer(&b)
	_, _ = io.WriteString(w, text) // a Builder takes everything
	_ = w.Close()
	return b.String()
}

// ScanFile reads a file, passes it on to others unless that is nil, and reports whether the file must be withheld.
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

// Warning returns a warning that names the kinds of tokens that were found, or "".
func (u *TokenFinder) Warning() string {
	kinds := u.foundKinds()
	if len(kinds) == 0 {
		return ""
	}
	text := "it printed or left what looks like " + strings.Join(kinds, ", ") + ", which it has from elsewhere than the vault"
	if u.Policy == UnknownMask {
		text += ": that was taken out, and files that hold it are withheld"
	}
	return fmt.Sprintf("%s (redact.unknown: %s)", text, cmp.Or(u.Policy, UnknownWarn))
}

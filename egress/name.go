package egress

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

const (
	maxName  = 253 // bytes of a DNS name in text form, RFC 1035 section 2.3.4
	maxLabel = 63  // bytes of one label
	maxInput = 4 * maxName
)

// unicodeNames maps names with other letters to ASCII the way browsers do (UTS 46, not transitional), and checks labels
// that are in punycode already. Hyphens in the third and fourth place stay allowed: content networks use such names.
var unicodeNames = idna.New(
	idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(),
	idna.CheckJoiners(true), idna.CheckHyphens(false), idna.StrictDomainName(false),
)

// canonical returns the form of a name that policies compare: lower case, ASCII, no final dot. A name that a resolver
// may parse as an address is an error.
func canonical(name string) (string, error) {
	switch {
	case name == "" || name == ".":
		return "", errors.New("the name is empty")
	case len(name) > maxInput:
		return "", fmt.Errorf("a name has at most %d characters", maxName)
	case !utf8.ValidString(name):
		return "", errors.New("the name is not UTF-8")
	case strings.ContainsAny(name, ":[]"):
		return "", errAddress
	}
	ascii, err := toASCII(name)
	if err != nil {
		return "", err
	}
	ascii = strings.TrimSuffix(ascii, ".")
	if len(ascii) > maxName {
		return "", fmt.Errorf("a name has at most %d characters", maxName)
	}
	labels := strings.Split(ascii, ".")
	for _, label := range labels {
		if err := checkLabel(label); err != nil {
			return "", err
		}
	}
	last := labels[len(labels)-1]
	switch {
	case isNumber(last):
		return "", errAddress
	case last == "localhost": // every name below it, too: RFC 6761
		return "", remedy.For(errors.New("localhost is the sandbox itself, whose own servers need no permission, and a port of the machine is "+
			"opened by its operator alone"),
			"name the port under ", remedy.Setting.With("egress.local"), ", or for one run ",
			remedy.Command.With("sandboxmcp run --allow localhost:3000"))
	}
	return ascii, nil
}

var (
	errAddress = errors.New("addresses can't be allowed, whatever their spelling: use the host's name")
	errNoHost  = errors.New("a bare host name is wanted, not a URL or a user name")
)

// toASCII returns a name in lower case, and passes only names with other letters through IDNA, which knows no
// underscores.
func toASCII(name string) (string, error) {
	lower := strings.ToLower(name)
	other := strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf })
	if !other && !strings.HasPrefix(lower, "xn--") && !strings.Contains(lower, ".xn--") {
		return lower, nil
	}
	ascii, err := unicodeNames.ToASCII(name)
	if err != nil {
		return "", errors.New("not a valid international name") // IDNA's error quotes the name unescaped
	}
	return ascii, nil
}

// checkLabel accepts letters, digits, hyphens inside, and underscores, which DNS permits and real services use.
func checkLabel(label string) error {
	if label == "" {
		return errors.New("the name has an empty part between dots")
	}
	if len(label) > maxLabel {
		return fmt.Errorf("a part between dots has at most %d characters", maxLabel)
	}
	for i := 0; i < len(label); i++ {
		switch c := label[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_', c == '-':
		case c == '@' || c == '/' || c == '\\' || c == '?' || c == '#':
			return errNoHost
		default:
			return fmt.Errorf("%s can't be in a host name", strconv.QuoteToASCII(string(rune(c))))
		}
	}
	if label[0] == '-' {
		return errors.New("a part between dots can't begin with a hyphen")
	}
	return nil
}

// isNumber reports whether a name with this last label is parsed as an IPv4 address by inet_aton (1, 127.1, 0x7f.1,
// 017700000001), and so by most programs. No top-level domain is a number.
// https://url.spec.whatwg.org/#ends-in-a-number-checker
func isNumber(label string) bool {
	if hex, is := strings.CutPrefix(label, "0x"); is {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// quote escapes and shortens untrusted text for messages.
func quote(s string) string { return strconv.QuoteToASCII(safetext.Clip(s, 80)) }

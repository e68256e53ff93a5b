package relay

import "strings"

const (
	leastKey    = 16 // bytes of a key that some service gave out
	leastDigits = 2
)

// likeKey says whether text looks like a key that some service gave out, and not like a name, an
// address or a word. Those have digits, and are long.
func likeKey(text string) bool {
	digits := 0
	for i := range len(text) {
		if text[i] >= '0' && text[i] <= '9' {
			digits++
		}
	}
	return len(text) >= leastKey && digits >= leastDigits && !strings.Contains(text, "@")
}

// besideAnother says whether in Basic credentials one half is a placeholder and the other one looks like
// a key. Many services take a key as the user and ignore the password, or the other way round.
func besideAnother(v string, bound []Secret) bool {
	text, ok := basic(v)
	if !ok {
		return false
	}
	user, password, _ := strings.Cut(text, ":")
	return isOne(user, bound) && !isOne(password, bound) && likeKey(password) ||
		isOne(password, bound) && !isOne(user, bound) && likeKey(user)
}

// areProtocols says whether a list of WebSocket protocols is only that. Browsers can send no other
// header, so services take credentials there: behind a prefix, or encoded.
func areProtocols(list string, bound []Secret) bool {
	for protocol := range strings.SplitSeq(list, ",") {
		protocol = strings.TrimSpace(protocol)
		for _, s := range bound {
			if before, ok := strings.CutSuffix(protocol, s.Placeholder); ok && s.Placeholder != "" && !likeKey(before) {
				protocol = ""
			}
		}
		if likeKey(protocol) || protocol != "" && carriesCredentials(protocol) {
			return false
		}
	}
	return true
}

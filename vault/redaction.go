package vault

// Mark is what stands in the text where a secret was.
const Mark = "***REDACTED***"

// redaction makes clean text out of text that comes in pieces.
type redaction struct {
	scan  scan
	held  []byte // the text from the position done on
	done  int64  // up to here the text was passed on, or a Mark in its place
	clean []byte
}

// add takes the next piece of text and returns what can be passed on, which may be a part of p, and
// is good until the next call. After the last piece, nothing stays.
func (r *redaction) add(m *matcher, p []byte, last bool) []byte {
	r.scan.matcher = m
	r.scan.feed(p)
	limit := r.scan.now
	if !last {
		limit = r.scan.pending()
	}
	if len(r.held) == 0 && len(r.scan.found) == 0 {
		n := limit - r.done
		r.held = append(r.held, p[n:]...)
		r.done = limit
		return p[:n]
	}
	base := r.done
	r.held = append(r.held, p...)
	r.settle(limit)
	n := copy(r.held, r.held[r.done-base:])
	r.held = r.held[:n]
	return r.clean
}

// settle makes clean the text that is certain: what begins at limit or later may still become a
// secret. A Mark goes out as soon as it is sure where it begins; the secret behind it may still grow,
// and then is left out in silence.
func (r *redaction) settle(limit int64) {
	base := r.done
	r.clean = r.clean[:0]
	pass := func(to int64) {
		if to > r.done {
			r.clean = append(r.clean, r.held[r.done-base:to-base]...)
			r.done = to
		}
	}
	settled := 0
	for _, s := range r.scan.found {
		if s.from > limit {
			break
		}
		if r.done <= s.from {
			pass(s.from)
			r.clean = append(r.clean, Mark...)
		}
		r.done = s.to
		if s.to > limit {
			break
		}
		settled++
	}
	r.scan.forget(settled)
	pass(limit)
}

// redactText makes clean text out of a whole.
func redactText(m *matcher, s string) string {
	r := redaction{scan: scan{matcher: m}, held: []byte(s)}
	defer r.wipe()
	r.scan.feed(r.held)
	if len(r.scan.found) == 0 {
		return s
	}
	r.settle(r.scan.now)
	return string(r.clean)
}

// wipe clears what is left of the text in memory.
func (r *redaction) wipe() {
	clear(r.held[:cap(r.held)])
	clear(r.clean[:cap(r.clean)])
	r.held, r.clean = nil, nil
}

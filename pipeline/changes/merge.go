package changes

import "bytes"

// merge applies to base both the change from base to ours and the one to theirs, as "git merge-file" does. It returns
// false if both changed the same or adjacent lines to different text.
func merge(base, ours, theirs []byte) ([]byte, bool) {
	if isBinary(base) || isBinary(ours) || isBinary(theirs) {
		return nil, false
	}
	lines, left, right := splitLines(base), splitLines(ours), splitLines(theirs)
	x, y := edits(base, ours), edits(base, theirs)
	var merged [][]byte
	at := 0
	for len(x) > 0 || len(y) > 0 {
		var e edit
		from := left
		switch {
		case len(y) == 0 || len(x) > 0 && x[0].aEnd < y[0].a:
			e, x = x[0], x[1:]
		case len(x) == 0 || y[0].aEnd < x[0].a:
			e, y, from = y[0], y[1:], right
		case x[0].a == y[0].a && x[0].aEnd == y[0].aEnd && equalLines(left[x[0].b:x[0].bEnd], right[y[0].b:y[0].bEnd]):
			e, x, y = x[0], x[1:], y[1:]
		default:
			return nil, false
		}
		merged = append(append(merged, lines[at:e.a]...), from[e.b:e.bEnd]...)
		at = e.aEnd
	}
	return bytes.Join(append(merged, lines[at:]...), nil), true
}

func equalLines(a, b [][]byte) bool { return bytes.Equal(bytes.Join(a, nil), bytes.Join(b, nil)) }

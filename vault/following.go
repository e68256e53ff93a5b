package vault

// following returns what may follow a prefix that leads to these threads, apart from special bytes.
func (p *patterns) following(threads []thread) (then [2]uint64) {
	for _, t := range threads {
		w := p.words[t.lo]
		switch {
		case t.tail == inWord && (t.state == start || t.state == afterBreak) && int(t.depth)+1 < len(w):
			then[0] |= bitOf(w[t.depth])
			then[1] |= bitOf(w[t.depth+1])
		case t.state == unit && t.count > 0:
			then[0] |= p.firstDigits(t, 4)
			then[1] = anything
		case t.state == long:
			then[0] |= p.firstDigits(t, 8)
			then[1] = anything
		case t.state == pair && t.run > 0 && t.count == 0:
			then[0] |= p.firstDigits(t, 2) | bitOf('2') | bitOf('u')
			for _, b := range []byte(hexDigits) {
				if u := t; p.digit(&u, b, 16, 2, 2) {
					then[1] |= p.firstDigits(u, 2)
				}
			}
			then[1] |= bitOf('5')
		default:
			return [2]uint64{anything, anything}
		}
	}
	return then
}

const hexDigits = "0123456789abcdef"

// firstDigits returns which hex digits may come next at t in a number of so many.
func (p *patterns) firstDigits(t thread, width uint8) (set uint64) {
	for _, b := range []byte(hexDigits) {
		if u := t; p.digit(&u, b, 16, width, width) {
			set |= bitOf(b)
		}
	}
	return set
}

package backends

const (
	// mostReasons bounds what is remembered of why programs found nothing ready: callers name the variables in some reasons.
	mostReasons = 32
	// longestReason is how many bytes one may have, likewise.
	longestReason = 200
	otherReason   = "another reason"
)

// Miss counts a program that found nothing ready, and why.
func (p *Pool) Miss(why string) {
	p.Misses++
	if p.Cold == nil {
		p.Cold = map[string]int64{}
	}
	if _, known := p.Cold[why]; !known && (len(p.Cold) >= mostReasons || len(why) > longestReason) {
		why = otherReason
	}
	p.Cold[why]++
}

package bench

import "math"

// scale puts milliseconds on a logarithmic axis. Both ends are above 0.
type scale struct{ from, to float64 }

// scaleOf returns the scale that all of them fit on, or false if there are none.
func scaleOf(all []Latency) (s scale, ok bool) {
	for _, l := range all {
		if l.Runs == 0 {
			continue
		}
		if !ok {
			s = scale{l.P10, l.P99}
		}
		s.from, s.to, ok = min(s.from, l.P10), max(s.to, l.P99), true
	}
	s.from = max(s.from, 0.001) // what is measured to a microsecond
	s.to = max(s.to, s.from)
	return scale{beneath(s.from), above(s.to)}, ok
}

// x is where a time stands in the plot.
func (s scale) x(ms float64) float64 {
	part := math.Log(max(ms, s.from)/s.from) / math.Log(s.to/s.from)
	return marksFrom + min(part, 1)*(marksTo-marksFrom)
}

// steps are the round numbers of each decade.
var steps = [...]float64{1, 2, 5, 10}

// ticks returns the round numbers of the scale, from end to end.
func (s scale) ticks() (all []float64) {
	for t := s.from; t < s.to*1.001; t = above(t * 1.001) {
		all = append(all, t)
	}
	return all
}

// beneath returns the largest round number that is not above f.
func beneath(f float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(f)))
	round := decade
	for _, s := range steps {
		if s*decade <= f*1.000001 {
			round = s * decade
		}
	}
	return tidy(round)
}

// above returns the smallest round number that is larger than f.
func above(f float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(f)))
	for _, s := range steps {
		if s*decade > f*1.000001 {
			return tidy(s * decade)
		}
	}
	return tidy(20 * decade)
}

// tidy undoes what powers of ten lose.
func tidy(f float64) float64 { return math.Round(f*1e6) / 1e6 }

package backends

import (
	"cmp"
	"maps"
	"slices"
)

const (
	// maxReasons bounds what is remembered of why programs found nothing ready: callers name the variables in some reasons.
	maxReasons = 32
	// maxReasonBytes is how many bytes one may have, likewise.
	maxReasonBytes = 200
	otherReason    = "another reason"
	// MaxKinds bounds the kinds that a Tally tells apart: callers choose how much RAM a program may have.
	MaxKinds = 64
)

// Miss counts a program that found nothing ready, and why.
func (p *Pool) Miss(why string) {
	p.Misses++
	if p.Cold == nil {
		p.Cold = map[string]int64{}
	}
	if _, known := p.Cold[why]; !known && (len(p.Cold) >= maxReasons || len(why) > maxReasonBytes) {
		why = otherReason
	}
	p.Cold[why]++
}

// PoolCounters counts, by kind of program, who found something ready. The zero value is empty. It may not be used concurrently.
type PoolCounters struct {
	pools map[kind]*Pool // without Ready and Memory, which change by themselves
}

// kind is what a Tally tells apart.
type kind struct {
	language string
	ram      int64
}

// others are counted together when there are too many kinds.
var others = kind{language: "others"}

// kind is what a program is counted under.
func (t *PoolCounters) kind(language string, ram int64) kind {
	k := kind{language, ram}
	if t.pools[k] == nil && len(t.pools) >= MaxKinds {
		return others
	}
	return k
}

// Of is where programs of a language with as much RAM are counted.
func (t *PoolCounters) Of(language string, ram int64) *Pool {
	k := t.kind(language, ram)
	if t.pools == nil {
		t.pools = map[kind]*Pool{}
	}
	if t.pools[k] == nil {
		t.pools[k] = &Pool{Language: k.language, RAM: k.ram}
	}
	return t.pools[k]
}

// Pools are all figures, by language and RAM, with what stands ready just now: of that, only Language, RAM,
// Ready and Memory count.
func (t *PoolCounters) Pools(ready []Pool) []Pool {
	all := map[kind]Pool{}
	for k, p := range t.pools {
		one := *p
		one.Cold = maps.Clone(one.Cold)
		all[k] = one
	}
	for _, p := range ready {
		k := t.kind(p.Language, p.RAM)
		one := all[k]
		one.Language, one.RAM = k.language, k.ram
		one.Ready += p.Ready
		one.Memory += p.Memory
		all[k] = one
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Pool) int {
		return cmp.Or(cmp.Compare(a.Language, b.Language), cmp.Compare(a.RAM, b.RAM))
	})
}

package backends

import (
	"cmp"
	"maps"
	"slices"
)

const (
	// maxReasons bounds the recorded reasons of misses: some contain variable names, which callers choose.
	maxReasons = 32
	// maxReasonBytes bounds the length of one reason.
	maxReasonBytes = 200
	otherReason    = "another reason"
	// MaxKinds bounds the kinds that PoolCounters distinguishes: callers choose the amount of RAM.
	MaxKinds = 64
)

// Miss counts a program that found no idle sandbox, by reason.
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

// PoolCounters counts, by kind of program, the hits and misses of a pool. The zero value is empty. It must not be used
// concurrently.
type PoolCounters struct {
	pools map[kind]*Pool // without Ready and Memory, which the pool itself knows
}

// kind is the key of PoolCounters.
type kind struct {
	language string
	ram      int64
}

// others counts all kinds beyond MaxKinds.
var others = kind{language: "others"}

// ForKind returns the counters of programs of a language with this RAM limit.
func (t *PoolCounters) ForKind(language string, ram int64) *Pool {
	k := kind{language, ram}
	if t.pools[k] == nil && len(t.pools) >= MaxKinds {
		k = others
	}
	if t.pools == nil {
		t.pools = map[kind]*Pool{}
	}
	if t.pools[k] == nil {
		t.pools[k] = &Pool{Language: k.language, RAM: k.ram}
	}
	return t.pools[k]
}

// Pools returns all counters, ordered by language and RAM, with the current idle sandboxes: of ready, only
// Language, RAM, Ready and Memory count.
func (t *PoolCounters) Pools(ready []Pool) (list []Pool) {
	all := PoolCounters{pools: map[kind]*Pool{}}
	for k, p := range t.pools {
		one := *p
		one.Cold = maps.Clone(one.Cold)
		all.pools[k] = &one
	}
	for _, p := range ready {
		one := all.ForKind(p.Language, p.RAM)
		one.Ready += p.Ready
		one.Memory += p.Memory
	}
	for _, p := range all.pools {
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b Pool) int {
		return cmp.Or(cmp.Compare(a.Language, b.Language), cmp.Compare(a.RAM, b.RAM))
	})
	return list
}

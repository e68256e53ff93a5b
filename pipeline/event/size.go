package event

import (
	"encoding/json"
	"maps"
	"slices"
)

// maxSize bounds one event, in approximate bytes of memory or JSON: a program's names for a thousand files must not
// fill the memory of listeners.
const maxSize = 32 << 10

// leftOut is the key in Data for the names of omitted values.
const leftOut = "left_out"

// bounded returns a copy of data, without its largest values if the total is too large, and its size.
func bounded(data map[string]any) (map[string]any, int) {
	if data == nil {
		return nil, 0
	}
	total := 0
	for k, v := range data {
		total += entrySize(k, v)
	}
	data = maps.Clone(data)
	if total > maxSize {
		total = shrink(data, total)
	}
	return data, total
}

// shrink removes values from data, the largest first, until the rest is small enough, and lists the first removed
// names.
func shrink(data map[string]any, total int) int {
	keys := slices.SortedFunc(maps.Keys(data), func(a, b string) int { return entrySize(b, data[b]) - entrySize(a, data[a]) })
	total += maxGone * perName
	gone := []string{}
	for _, k := range keys {
		if total <= maxSize {
			break
		}
		total -= entrySize(k, data[k])
		delete(data, k)
		if len(gone) < maxGone && len(k) <= perName {
			gone = append(gone, k)
		}
	}
	data[leftOut] = gone
	return total
}

// maxGone bounds the omitted values that are named.
const maxGone = 10

// Approximate overhead of a value and a name, in bytes.
const (
	perValue = 16
	perName  = 64
)

// entrySize returns the approximate size of a value of Data, in bytes. Common types need no encoding.
func entrySize(key string, value any) int {
	total := perName + len(key)
	switch v := value.(type) {
	case string:
		return total + perValue + len(v)
	case []string:
		for _, s := range v {
			total += perValue + len(s)
		}
		return total
	case bool, int, int64, float64:
		return total + perValue
	}
	text, err := json.Marshal(value)
	if err != nil { // cyclic, or not representable in JSON: omit it
		return total + maxSize
	}
	return total + len(text)
}

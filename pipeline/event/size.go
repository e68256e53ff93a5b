package event

import (
	"encoding/json"
	"maps"
	"slices"
)

// maxSize bounds one event, in bytes about as they are in memory or in JSON: names that a program chose for a
// thousand files must not fill the memory of whoever listens.
const maxSize = 32 << 10

// leftOut is the key under which Data names what was too much.
const leftOut = "left_out"

// bounded returns a copy of data, less its largest values where all of them together are too much,
// and its size.
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

// shrink takes values out of data, the largest first, until what stays is small enough, and names the
// first of them.
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

// maxGone is how many of the values that were left out are named.
const maxGone = 10

// Bytes that a value takes beside its content, about.
const (
	perValue = 16
	perName  = 64
)

// entrySize is about how many bytes a value of Data takes. Most are of few types, whose size takes no search.
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
	if err != nil { // a loop, or what is none of JSON's: nobody could be told
		return total + maxSize
	}
	return total + len(text)
}

package mcp

import (
	"slices"
	"strings"
)

// otherNames are what callers of other tools like ours call the same thing.
var otherNames = map[string][]string{
	"lang": {"language"}, "runtime": {"language"}, "script": {"code"}, "source": {"code"}, "program": {"code"},
	"cmd": {"code", "command"}, "command": {"code"}, "input": {"stdin"}, "session": {"session_id"},
	"id": {"session_id", "request_id"}, "run_id": {"request_id"}, "job_id": {"request_id"}, "task_id": {"request_id"}, "request_id": {"session_id"},
	"domains": {"allowed_domains"}, "hosts": {"allowed_domains"}, "host": {"domain"}, "allow": {"allowed_domains"},
	"environment": {"env"}, "argv": {"args"}, "arguments": {"args"}, "limits": {"resource_limits"},
	"pkg": {"packages"}, "dependencies": {"packages"}, "libraries": {"packages"}, "memory": {"max_ram_mb"},
	"memory_mb": {"max_ram_mb"}, "ram_mb": {"max_ram_mb"}, "cpu": {"max_cpu_cores"}, "cores": {"max_cpu_cores"},
	"file": {"name", "path"}, "filename": {"name", "path"}, "variable": {"key"}, "data": {"value", "content"},
	"async": {"background"}, "fix": {"auto_fix"}, "why": {"reason"}, "justification": {"reason"}, "q": {"query"},
	"ns": {"namespace"}, "ttl": {"idle_seconds"}, "max_results": {"limit"}, "count": {"limit"}, "link": {"url"},
}

// meant is the field that a caller most likely had in mind, or "".
func (f form) meant(name string) string {
	names := f.names()
	low := strings.ReplaceAll(strings.ToLower(name), "-", "_")
	for _, other := range otherNames[low] {
		if slices.Contains(names, other) {
			return other
		}
	}
	return nearest(low, names)
}

// nearest is the name that is a typing error or two away, has the same words, or begins alike.
func nearest(s string, names []string) string {
	best, least := "", 3
	for _, n := range names {
		if d := distance(s, n); d < least && d*2 < len(n) {
			best, least = n, d
		}
	}
	if best != "" || len(s) < 3 {
		return best
	}
	plain := strings.ReplaceAll(s, "_", "")
	for _, n := range names {
		if p := strings.ReplaceAll(n, "_", ""); len(p) >= 3 && (strings.HasPrefix(p, plain) || strings.HasPrefix(plain, p) || strings.HasSuffix(p, plain)) {
			return n
		}
	}
	return ""
}

// distance returns how many letters must be changed, added or left out to make b of a.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before + b2i(a[i] != b[j])
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

package operation

import (
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/validate/spelling"
)

// otherNames are the names of the same arguments in similar tools.
var otherNames = map[string][]string{
	"lang": {"language"}, "runtime": {"language"}, "script": {"code"}, "source": {"code"}, "program": {"code"},
	"cmd": {"code", "command"}, "command": {"code"}, "input": {"stdin"}, "session": {"session_id"},
	"id": {"session_id", "request_id"}, "run_id": {"request_id"}, "job_id": {"request_id"}, "task_id": {"request_id"},
	"request_id": {"session_id"},
	"domains":    {"allowed_domains"}, "hosts": {"allowed_domains"}, "host": {"domain"}, "allow": {"allowed_domains"},
	"environment": {"env"}, "argv": {"args"}, "arguments": {"args"}, "limits": {"resource_limits"},
	"pkg": {"packages"}, "dependencies": {"packages"}, "libraries": {"packages"}, "memory": {"max_ram_mb"},
	"memory_mb": {"max_ram_mb"}, "ram_mb": {"max_ram_mb"}, "cpu": {"max_cpu_cores"}, "cores": {"max_cpu_cores"},
	"file": {"name", "path"}, "filename": {"name", "path"}, "variable": {"key"}, "data": {"value", "content"},
	"async": {"background"}, "fix": {"auto_fix"}, "why": {"reason"}, "justification": {"reason"}, "q": {"query"},
	"ns": {"namespace"}, "ttl": {"idle_seconds"}, "max_results": {"limit"}, "count": {"limit"}, "link": {"url"},
}

// suggestName returns the most likely intended field, or "".
func (f Form) suggestName(name string) string {
	names := f.Names()
	low := strings.ReplaceAll(strings.ToLower(name), "-", "_")
	for _, other := range otherNames[low] {
		if slices.Contains(names, other) {
			return other
		}
	}
	return spelling.Nearest(low, names)
}

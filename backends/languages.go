package backends

// AnyProgram is the Spec.Language of a sandbox for arbitrary programs: all interpreters that can be shown are visible.
const AnyProgram = "command"

// Languages are the languages that every backend supports, in display order.
var Languages = []string{"python", "node", "shell", "r"}

// Tasks returns how many threads may exist at once in a sandbox for a language: the processes that its limit grants, PID 1,
// and the interpreter's own threads. Those are V8's and libuv's pools for node, and as many for a shell or a command, which
// starts other interpreters.
func Tasks(language string, processes int) int {
	own := map[string]int{"node": 20, "shell": 20, AnyProgram: 20, "python": 1, "r": 8}[language]
	return processes + own + 1
}

package backends

// AnyProgram is the Spec.Language of a sandbox for any program: each interpreter that can be shown is.
const AnyProgram = "command"

// Languages are those that every backend knows, in the order in which they are listed.
var Languages = []string{"python", "node", "shell", "r"}

// Tasks is how many threads may live at once in a sandbox for a language: the processes that its limit grants,
// PID 1, and what the interpreter starts for itself. That is V8's and libuv's pools for node, and as much
// for a shell or a command, which is there to start other interpreters.
func Tasks(language string, processes int) int {
	own := map[string]int{"node": 20, "shell": 20, AnyProgram: 20, "python": 1, "r": 8}[language]
	return processes + own + 1
}

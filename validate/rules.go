package validate

import "slices"

// The severities, from Info, which is worth knowing, to High, which no ordinary program does.
const (
	Info   = "info"
	Low    = "low"
	Medium = "medium"
	High   = "high"
)

// Rule is a dangerous pattern that Analyze reports.
type Rule struct {
	Name     string // by which it is switched off; it begins with the language, unless it is about all
	Severity string
	Reason   string // for people who run the code in a sandbox
}

// unread is the rule for code that could not be inspected: a program that is too hard to read must not pass a policy
// that refuses dangers.
const unread = "unread"

// Rules returns all rules. Where a sandbox stops the program anyway, the reason names the error that the program will
// see, and no danger to the machine.
func Rules() []Rule { return slices.Clone(rules) }

var rules = []Rule{
	{unread, Medium, "the code could not be looked at, because it is too large, nested too deeply or unknown to our parser: what it does is not known"},

	{"python-eval", Medium, "runs text as code: what that does can't be seen before it runs"},
	{"python-encoded-code", High, "runs code that it unpacks or decodes first, which is how code hides what it does"},
	{"python-remote-code", High, "runs code that it fetches from the network: whoever serves it decides what runs"},
	{"python-hidden-name", Medium, "reaches a function by a name that it puts together, which is how code hides what it calls"},
	{"python-os-system", Medium, "hands a line to a shell: what is put into the line from data is run, too"},
	{"python-subprocess-shell", Medium, "starts a process through a shell: pass the words as a list, without shell=True"},
	{"python-unpickle", Medium, "unpickled data can call any function: fine for data that the program wrote, not for data from elsewhere"},
	{"python-yaml-load", Medium, "this way of loading YAML makes any Python object that the text names: use yaml.safe_load"},
	{"python-native", Medium, "calls native code by hand: a mistake there ends the interpreter without a traceback"},
	{"python-dynamic-import", Low, "imports a module whose name is only known when it runs"},
	{"python-socket", Low, "opens sockets: without allowed domains there is no network, and this fails"},
	{"python-network", Info, "uses the network: only the domains that were allowed for the run can be reached"},
	{"python-reverse-shell", High, "ties standard input or output to a socket, which gives a shell to whoever listens at the other end"},
	{"python-delete-all", High, "deletes everything that the program can write: its own workspace and the files given to it"},
	{"python-system-write", Medium, "changes files of the system or of the user's settings: they are read-only or absent in a sandbox, so this fails or has no effect"},
	{"python-kill-all", Medium, "signals every process that it can see: those of its own run, itself among them"},
	{"python-fork-bomb", High, "starts processes without end: the run stops at its process limit with nothing done"},
	{"python-escape", Medium, "walks through Python's own classes or frames to reach what was not handed to it; that defeats checks inside the interpreter, not the sandbox"},
	{"python-patch-builtins", Low, "changes Python's built-in functions for everything that runs after it"},

	{"node-eval", Medium, "runs text as code: what that does can't be seen before it runs"},
	{"node-function-constructor", Medium, "makes a function out of text: what that does can't be seen before it runs"},
	{"node-timer-text", Low, "hands text to a timer: browsers run it as code, and Node refuses it with an error"},
	{"node-vm", Medium, "runs text as code in a context of its own, which is no boundary: code in there can reach the outer one"},
	{"node-encoded-code", High, "runs code that it unpacks or decodes first, which is how code hides what it does"},
	{"node-remote-code", High, "runs code that it fetches from the network: whoever serves it decides what runs"},
	{"node-shell", Medium, "hands a line to a shell: what is put into the line from data is run, too; use execFile or spawn with a list"},
	{"node-binding", Medium, "reaches into Node's internals or loads native code, past what its documented modules check"},
	{"node-dynamic-require", Low, "loads a module whose name is only known when it runs"},
	{"node-system-write", Medium, "changes files of the system or of the user's settings: they are read-only or absent in a sandbox, so this fails or has no effect"},
	{"node-delete-all", High, "deletes everything that the program can write: its own workspace and the files given to it"},
	{"node-socket", Low, "opens sockets or serves: without allowed domains there is no network, and nobody outside can connect"},
	{"node-network", Info, "uses the network: only the domains that were allowed for the run can be reached"},
	{"node-kill-all", Medium, "signals its parent or every process that it can see: those of its own run, itself among them"},
	{"node-prototype", Low, "changes the prototype that other objects share: every object of the program sees it"},
	{"node-fork-bomb", High, "starts processes without end: the run stops at its process limit with nothing done"},

	{"shell-delete-all", High, "deletes everything that the program can write: its own workspace and the files given to it"},
	{"shell-remote-code", High, "runs what it downloads, unseen: whoever serves it decides what runs"},
	{"shell-encoded-code", High, "runs code that it decodes first, which is how code hides what it does"},
	{"shell-fork-bomb", High, "starts processes without end: the run stops at its process limit with nothing done"},
	{"shell-raw-disk", High, "writes to a disk's device, past its file system: there is no such device in a sandbox, so this fails"},
	{"shell-format", High, "makes a new file system or partition: there is no disk in a sandbox to do that with, so this fails"},
	{"shell-permissions-all", Medium, "changes the permissions or owners of everything that it can reach: only the workspace can be changed"},
	{"shell-system-write", Medium, "changes files of the system or of the user's settings: they are read-only or absent in a sandbox, so this fails or has no effect"},
	{"shell-eval", Low, "runs text as commands: what that does can't be seen before it runs"},
	{"shell-reverse-shell", High, "ties a shell to a network connection, which gives it to whoever listens at the other end"},
	{"shell-socket", Low, "opens a network connection by a file name of bash: without allowed domains there is no network, and this fails"},
	{"shell-network", Info, "uses the network: only the domains that were allowed for the run can be reached"},
	{"shell-sudo", Low, "asks for another user's rights: there is nobody else to become in a sandbox, so this fails"},
	{"shell-history", Low, "wipes or switches off the shell's history, which is how traces are hidden; the run's own log is not affected"},
	{"shell-schedule", Low, "schedules a job for later: nothing outlives the run"},
	{"shell-kill-all", Medium, "signals every process that it can see: those of its own run, itself among them"},
}

// ruleNamed finds a rule.
func ruleNamed(name string) (Rule, bool) {
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name })
	if i < 0 {
		return Rule{}, false
	}
	return rules[i], true
}

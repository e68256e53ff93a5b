// Package remedy has texts that tell callers how to solve a problem. Each interface renders them with its own names
// of parameters and commands.
package remedy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Text is a sequence of Names, Parts, and other values, which fmt prints.
type Text []any

// A Name is a parameter or an action, in the words of the command line. A value replaces its %s, or follows it.
type Name string

// A Part is a Name with a value.
type Part struct {
	Name  Name
	Value string
}

// With returns n with a value.
func (n Name) With(value string) Part { return Part{n, value} }

// The parameters of a run.
const (
	Timeout, RAM, CPU, Processes, Output, Disk Name = "--timeout", "--ram", "--cpu", "--processes", "--output", "--disk"
	Input, Bring, Mount, Workspace             Name = "--input", "--input or --mount", "--mount", "--workspace"
	Artifacts, Changes                         Name = "--artifacts", "--changes"
	Env, SetEnv, Secret, Allow, Language       Name = "--env", "--env NAME=VALUE", "--secret", "--allow", "--language"
)

// Choices of a backend and of its containment, settings, and commands that a person types at a terminal.
const (
	Backend, Profile, GPUs Name = "--backend", "--profile", "--gpus"
	Hardened               Name = "use the profile hardened"
	Setting                Name = "%s in the configuration"
	Command                Name = "%v" // Packages is "%s"
	AddAgain               Name = "add it again with --replace"
	OtherPage              Name = "read another page, or ask the operator to add the host to web.allow in the configuration"
)

// Other actions of callers.
const (
	Run, Exec, Stored, FetchPage  Name = "sandboxmcp run", "sandboxmcp session exec", "sandboxmcp artifacts", "sandboxmcp web fetch"
	FindSession, NoSession        Name = "sandboxmcp session list", "use sandboxmcp run"
	CreateSession, EndSession     Name = "sandboxmcp session create", "sandboxmcp session kill ID"
	OtherLanguage, SetLimits      Name = "sandboxmcp session create --language LANGUAGE", "sandboxmcp limits --session ID"
	Inspect, Bridge, FromKey      Name = "sandboxmcp inspect", "sandboxmcp bridge", "--from-key"
	Install, Packages, ForProgram Name = "sandboxmcp install", "%s", "--language %s"
	ForSession, InstallMissing    Name = "%.0s", "" // only agents install for a session; a script's missing module may be a file beside it

	Raise            Name = "raise %s in the configuration"
	AskEgress        Name = "sandboxmcp egress DOMAIN --namespace NS"
	AskCommand       Name = `add "%s" to host.allowed in the configuration, or type this at a terminal, which asks you`
	AskDirectory     Name = "add the directory to host.%s in the configuration"
	AllowedDirectory Name = "name one below an allowed directory: sandboxmcp host access list"
	SeeLog           Name = "run sandboxmcp audit verify and sandboxmcp key show on the machine with the log"
	FreeLog          Name = "free some disk space, or delete old files of the log: sandboxmcp audit rotate --keep 90d on its machine"
	Replace          Name = "--mode overwrite or append, or for a copy --overwrite,"
)

// Error is an error followed by a remedy.
type Error struct {
	err    error
	remedy Text
}

// For adds a remedy to err.
func For(err error, do ...any) error { return &Error{err, do} }

func (e *Error) Error() string { return e.err.Error() + ": " + e.remedy.String() }

// Unwrap returns the error without the remedy.
func (e *Error) Unwrap() error { return e.err }

// Split returns an error's text without its remedy, and the remedy.
func Split(err error) (reason string, do Text) {
	if e, is := errors.AsType[*Error](err); is {
		if before, last := strings.CutSuffix(err.Error(), e.Error()); last {
			return before + e.err.Error(), e.remedy
		}
	}
	return err.Error(), nil
}

// In renders the text, with the words of a caller for its Names and Parts.
func (t Text) In(words func(Part) string) string {
	own := slices.Clone(t)
	for i, a := range t {
		switch a := a.(type) {
		case Name:
			own[i] = words(a.With(""))
		case Part:
			own[i] = words(a)
		}
	}
	return fmt.Sprint(own...)
}

// String renders the text in words of the command line.
func (t Text) String() string { return t.In(Part.String) }

// String returns the text that people type.
func (p Part) String() string {
	switch {
	case p.Name == Packages:
		return regexp.MustCompile(`\S*[<>!~[\]*]\S*`).ReplaceAllString(p.Value, "'$0'")
	case strings.Contains(string(p.Name), "%"):
		return fmt.Sprintf(string(p.Name), p.Value)
	}
	return strings.TrimRight(string(p.Name)+" "+p.Value, " ")
}

// Clean applies clean to each string in the text.
func (t Text) Clean(clean func(string) string) Text {
	own := slices.Clone(t)
	for i, a := range t {
		switch a := a.(type) {
		case string:
			own[i] = clean(a)
		case Part:
			own[i] = a.Name.With(clean(a.Value))
		}
	}
	return own
}

// IsZero reports whether the text is empty.
func (t Text) IsZero() bool { return t.String() == "" }

// MarshalText renders the text in words of the command line.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a rendered text, as one string.
func (t *Text) UnmarshalText(b []byte) error {
	*t = Text{string(b)}
	return nil
}

// Package remedy has texts that tell callers what to do, in which each caller reads its own names of parameters and
// commands.
package remedy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Text is what stands one behind the other: a Name, a Part, and the rest as fmt prints it.
type Text []any

// A Name is a parameter or what else a caller can do, as the command line says it. A value stands for its %s, or behind
// it.
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
	OtherPage              Name = "read another page, or have the host added to web.allow in the configuration"
)

// What callers can do otherwise.
const (
	Run, Exec, Stored, FetchPage  Name = "sandboxmcp run", "sandboxmcp session exec", "sandboxmcp artifacts", "sandboxmcp web fetch"
	FindSession, NoSession        Name = "sandboxmcp session list", "use sandboxmcp run"
	CreateSession, EndSession     Name = "sandboxmcp session create", "sandboxmcp session kill ID"
	OtherLanguage, SetLimits      Name = "sandboxmcp session create --language LANGUAGE", "sandboxmcp limits --session ID"
	Inspect, Bridge, FromKey      Name = "sandboxmcp inspect", "sandboxmcp bridge", "--from-key"
	Install, Packages, ForProgram Name = "sandboxmcp install", "%s", "--language %s"
	ForSession, InstallMissing    Name = "%.0s", "" // only agents install for a session; what a script lacks may be beside it

	Raise            Name = "raise %s in the configuration"
	AskEgress        Name = "sandboxmcp egress DOMAIN --namespace NS"
	AskCommand       Name = `add "%s" to host.allowed in the configuration, or type this at a terminal, where you are asked`
	AskDirectory     Name = "add the directory to host.%s in the configuration"
	AllowedDirectory Name = "name one below a directory that is allowed, as sandboxmcp host access list shows them"
	SeeLog           Name = "see sandboxmcp audit verify and sandboxmcp key show, where the log is"
	FreeLog          Name = "free some disk space, or delete old files of the log: sandboxmcp audit rotate --keep 90d, where the log is"
	Replace          Name = "--mode overwrite or append, or for a copy --overwrite,"
)

// Error is an error with a remedy, which stands behind it.
type Error struct {
	err    error
	remedy Text
}

// For returns err with a remedy.
func For(err error, do ...any) error { return &Error{err, do} }

func (e *Error) Error() string { return e.err.Error() + ": " + e.remedy.String() }

// Unwrap returns the error without the remedy.
func (e *Error) Unwrap() error { return e.err }

// Split returns an error's text without the remedy at its end, and that remedy.
func Split(err error) (reason string, do Text) {
	if e, is := errors.AsType[*Error](err); is {
		if before, last := strings.CutSuffix(err.Error(), e.Error()); last {
			return before + e.err.Error(), e.remedy
		}
	}
	return err.Error(), nil
}

// In returns the text with the words of a caller for its parts.
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

// String returns the text in words of the command line.
func (t Text) String() string { return t.In(Part.String) }

// String returns what people type.
func (p Part) String() string {
	switch {
	case p.Name == Packages:
		return regexp.MustCompile(`\S*[<>!~[\]*]\S*`).ReplaceAllString(p.Value, "'$0'")
	case strings.Contains(string(p.Name), "%"):
		return fmt.Sprintf(string(p.Name), p.Value)
	}
	return strings.TrimRight(string(p.Name)+" "+p.Value, " ")
}

// Clean returns the text with what clean makes of each string in it.
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

// IsZero reports whether the text says nothing.
func (t Text) IsZero() bool { return t.String() == "" }

// MarshalText writes the text in words of the command line.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a text whose parts are not known any more.
func (t *Text) UnmarshalText(b []byte) error {
	*t = Text{string(b)}
	return nil
}

package containment

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// RuntimeOf returns the operator's runtime for a language, or for a file's name where no language is said.
func RuntimeOf(p *pipeline.Pipeline, language, name string) (pipeline.Runtime, bool) {
	i := slices.IndexFunc(p.Config.Runtimes, func(r pipeline.Runtime) bool {
		return strings.EqualFold(r.Name, language) || language == "" && slices.Contains(r.Extensions, strings.ToLower(path.Ext(name)))
	})
	if i < 0 {
		return pipeline.Runtime{}, false
	}
	return p.Config.Runtimes[i], true
}

// OtherLanguage returns the operator's own language of this name, or of a file of this name where no language is said;
// "" is none.
func OtherLanguage(p *pipeline.Pipeline, language, file string) string {
	r, _ := RuntimeOf(p, language, file)
	return r.Name
}

// OtherLanguages are the languages that the operator has named.
func OtherLanguages(p *pipeline.Pipeline) (names []string) {
	for _, r := range p.Config.Runtimes {
		names = append(names, r.Name)
	}
	return names
}

// CheckPrograms returns an error if a program that commands need is not there.
func CheckPrograms(t pipeline.Runtime, backend string, commands ...[]string) error {
	program := MissingProgram(backend, commands...)
	if program == "" {
		return nil
	}
	return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("%s needs %s, which this machine does not have where programs see it", t.Name, program),
		"install it, or change ", remedy.Setting.With("runtimes."+t.Name))
}

// WrongLanguage returns the error for code of a language that is not its session's.
func WrongLanguage(session, code string) error {
	return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the session runs %s, and this is %s", session, code), remedy.OtherLanguage)
}

// SessionLanguage returns a language of which a session on a backend can be, by one of its names, and what its sandbox
// shows.
func SessionLanguage(p *pipeline.Pipeline, name, backend string) (language, shows string, err error) {
	t, is := RuntimeOf(p, name, "")
	switch {
	case is && t.Kernel == nil:
		return "", "", pipeline.Refuse(pipeline.StageValidate, "code of "+t.Name+" runs without a session: its language has no kernel",
			"run it without one, or name a kernel as ", remedy.Setting.With("runtimes."+t.Name+".kernel"))
	case is:
		return t.Name, backends.AnyProgram, CheckPrograms(t, backend, t.Kernel)
	}
	if language, err = validate.Language(name); err != nil {
		others := ""
		if own := Kernels(p.Config.Runtimes); len(own) > 0 {
			others = "or one of the operator's own: " + strings.Join(slices.Sorted(maps.Keys(own)), ", ")
		}
		return "", "", pipeline.Refuse(pipeline.StageValidate, err.Error(), others)
	}
	return language, language, nil
}

// Kernels are those of the operator's languages.
func Kernels(runtimes []pipeline.Runtime) map[string]kernel.CustomLanguage {
	all := map[string]kernel.CustomLanguage{}
	for _, t := range runtimes {
		own := kernel.CustomLanguage{Language: t.Name, Args: t.Kernel, Source: t.Driver}
		if t.Driver != "" {
			own.Args = []string{"sh", "-c", fmt.Sprintf("d=${TMPDIR:-/tmp}/kernel-$$; head -c %d <&3 >\"$d\" || exit; exec %s", len(t.Driver), words(t.Kernel, false))}
		}
		if t.Kernel != nil {
			all[t.Name] = own
		}
	}
	return all
}

// CommandLine is the begin of a command line, which the code's file follows, and its arguments.
func CommandLine(t pipeline.Runtime, check bool) []string {
	switch {
	case check:
		return shellLine(t.Check, true)
	case t.Compile == nil:
		return shellLine(t.Command, true)
	}
	return script("p=${TMPDIR:-/tmp}/program; " + words(t.Compile, true) + " || exit; exec " + words(t.Command, false) + ` "$@"`)
}

// shellLine is a command as it is, where the file's name comes last, or else a script that puts it in its place.
func shellLine(command []string, file bool) []string {
	if !strings.Contains(strings.Join(command, " "), "{file}") {
		return command
	}
	return script("exec " + words(command, file) + ` "$@"`)
}

func script(text string) []string { return []string{"sh", "-c", `f=$1; shift; ` + text, "sh"} }

// words writes a command for a shell, in which f is the file, p the program and d the driver. With file, it gets the
// file's name.
func words(command []string, file bool) string {
	var all []string
	for _, w := range command {
		w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		file = file && !strings.Contains(w, "{file}")
		all = append(all, strings.NewReplacer("{file}", `'"$f"'`, "{program}", `'"$p"'`, "{driver}", `'"$d"'`).Replace(w))
	}
	if file {
		all = append(all, `"$f"`)
	}
	return strings.Join(all, " ")
}

// programs are where sandboxes of the backend process see programs of the host.
var programs = []string{"/usr/local/bin", "/usr/bin", "/bin"}

// MissingProgram returns a program that is needed and not there. Only of the backend process that is known before.
func MissingProgram(backend string, commands ...[]string) string {
	if backend != "process" {
		return ""
	}
	for _, command := range commands {
		if len(command) > 0 && !strings.HasPrefix(command[0], "{") && whereIs(command[0]) == "" {
			return command[0]
		}
	}
	return ""
}

// whereIs returns the path of a program, "" if it is not where sandboxes see programs.
func whereIs(name string) string {
	for _, dir := range programs {
		file := name
		if !filepath.IsAbs(name) {
			file = filepath.Join(dir, name)
		}
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file
		}
	}
	return ""
}

// ProbeRuntimes tells of the operator's runtimes as a probe of a backend does.
func ProbeRuntimes(runtimes []pipeline.Runtime, backend string) (all []backends.Runtime) {
	for _, t := range runtimes {
		first := t.Command[0]
		if t.Compile != nil {
			first = t.Compile[0]
		}
		sessions := "without"
		if t.Kernel != nil {
			sessions = "with"
		}
		about := backends.Runtime{Name: t.Name, Path: first, Why: remedy.Text{"runs files " + strings.Join(t.Extensions, " ") + ", " + sessions + " sessions"}}
		if backend != "process" {
			about.Why = append(about.Why, "; where the image has "+first)
		} else if program := MissingProgram(backend, t.Command, t.Compile, t.Kernel); program != "" {
			about.Path, about.Why = "", remedy.Text{"the configuration names " + program + ", which is not there: install it"}
		} else {
			about.Path = whereIs(first)
		}
		all = append(all, about)
	}
	return all
}

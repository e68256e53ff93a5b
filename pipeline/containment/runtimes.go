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

// RuntimeOf returns the operator's runtime for a language, or for a file name if language is "".
func RuntimeOf(p *pipeline.Pipeline, language, name string) (pipeline.Runtime, bool) {
	i := slices.IndexFunc(p.Config.Runtimes, func(r pipeline.Runtime) bool {
		return strings.EqualFold(r.Name, language) || language == "" && slices.Contains(r.Extensions, strings.ToLower(path.Ext(name)))
	})
	if i < 0 {
		return pipeline.Runtime{}, false
	}
	return p.Config.Runtimes[i], true
}

// OtherLanguage returns the name of the operator's language, or of the one for a file name if language is ""; "" if
// there is none.
func OtherLanguage(p *pipeline.Pipeline, language, file string) string {
	r, _ := RuntimeOf(p, language, file)
	return r.Name
}

// OtherLanguages returns the names of the operator's languages.
func OtherLanguages(p *pipeline.Pipeline) (names []string) {
	for _, r := range p.Config.Runtimes {
		names = append(names, r.Name)
	}
	return names
}

// CheckPrograms returns an error if a program of the commands is missing.
func CheckPrograms(t pipeline.Runtime, backend string, commands ...[]string) error {
	program := MissingProgram(backend, commands...)
	if program == "" {
		return nil
	}
	return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("%s needs %s, which is missing from the directories that sandboxes see", t.Name,
		program),
		"install it, or change ", remedy.Setting.With("runtimes."+t.Name))
}

// WrongLanguage returns the error for code of a language that is not its session's.
func WrongLanguage(session, code string) error {
	return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the session runs %s, but this code is %s", session, code),
		remedy.OtherLanguage)
}

// SessionLanguage resolves the name of a language for a session on a backend, and returns also the language whose
// interpreter its sandbox shows.
func SessionLanguage(p *pipeline.Pipeline, name, backend string) (language, shows string, err error) {
	t, is := RuntimeOf(p, name, "")
	switch {
	case is && t.Kernel == nil:
		return "", "", pipeline.Refuse(pipeline.StageValidate, "sessions can't run "+t.Name+": the language has no kernel",
			"run it without a session, or set a kernel in ", remedy.Setting.With("runtimes."+t.Name+".kernel"))
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

// Kernels returns the kernels of the operator's languages.
func Kernels(runtimes []pipeline.Runtime) map[string]kernel.CustomLanguage {
	all := map[string]kernel.CustomLanguage{}
	for _, t := range runtimes {
		own := kernel.CustomLanguage{Language: t.Name, Args: t.Kernel, Source: t.Driver}
		if t.Driver != "" {
			own.Args = []string{"sh", "-c", fmt.Sprintf("d=${TMPDIR:-/tmp}/kernel-$$; head -c %d <&3 >\"$d\" || exit; exec %s", len(t.Driver),
				words(t.Kernel, false))}
		}
		if t.Kernel != nil {
			all[t.Name] = own
		}
	}
	return all
}

// CommandLine returns the beginning of a command line; the code's file and its arguments follow.
func CommandLine(t pipeline.Runtime, check bool) []string {
	switch {
	case check:
		return shellLine(t.Check, true)
	case t.Compile == nil:
		return shellLine(t.Command, true)
	}
	return script("p=${TMPDIR:-/tmp}/program; " + words(t.Compile, true) + " || exit; exec " + words(t.Command, false) + ` "$@"`)
}

// shellLine returns command unchanged if the file name comes last, or else a script that inserts it.
func shellLine(command []string, file bool) []string {
	if !strings.Contains(strings.Join(command, " "), "{file}") {
		return command
	}
	return script("exec " + words(command, file) + ` "$@"`)
}

func script(text string) []string { return []string{"sh", "-c", `f=$1; shift; ` + text, "sh"} }

// words formats a command for a shell, with $f for the file, $p for the program and $d for the driver. With file, it
// includes the file's name.
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

// programs are the directories in which sandboxes of the backend process see programs of the host.
var programs = []string{"/usr/local/bin", "/usr/bin", "/bin"}

// MissingProgram returns a program of the commands that is missing, or "". This is known in advance only for the
// backend process.
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

// whereIs returns the path of a program in the directories that sandboxes see, or "".
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

// ProbeRuntimes describes the operator's runtimes for the probe of a backend.
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
		about := backends.Runtime{Name: t.Name, Path: first, Why: remedy.Text{"runs files " + strings.Join(t.Extensions, " ") + ", " + sessions +
			" sessions"}}
		if backend != "process" {
			about.Why = append(about.Why, "; if the image has "+first)
		} else if program := MissingProgram(backend, t.Command, t.Compile, t.Kernel); program != "" {
			about.Path, about.Why = "", remedy.Text{"the configuration names " + program + ", which is missing: install it"}
		} else {
			about.Path = whereIs(first)
		}
		all = append(all, about)
	}
	return all
}

package pipeline

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/validate"
	"github.com/sandboxmcp/sandboxmcp/validate/notebook"
)

// Runtime is a language that the operator has named. In a word of its commands, {file} stands for the code's file, and {program} for where
// Compile leaves a program. A command without {file} gets it as its last word, but for the Command of what is compiled.
type Runtime struct {
	Name       string
	Extensions []string // of its files, with the dot, in lower case
	Command    []string // runs the code; its arguments follow
	Compile    []string // makes the program first; nil is that there is none
	Check      []string // looks at the syntax alone; nil is that nothing can
	Kernel     []string // keeps a session, see [kernel.Own]; nil is that it has none. In it, {driver} stands for a file that has Driver.
	Driver     string
}

// runtimeOf returns the operator's runtime for a language, or for a file's name where no language is said.
func (p *Pipeline) runtimeOf(language, name string) (Runtime, bool) {
	i := slices.IndexFunc(p.cfg.Runtimes, func(r Runtime) bool {
		return strings.EqualFold(r.Name, language) || language == "" && slices.Contains(r.Extensions, strings.ToLower(path.Ext(name)))
	})
	if i < 0 {
		return Runtime{}, false
	}
	return p.cfg.Runtimes[i], true
}

// OtherLanguage returns the operator's own language of this name, or of a file of this name where no language is said; "" is none.
func (p *Pipeline) OtherLanguage(language, file string) string {
	r, _ := p.runtimeOf(language, file)
	return r.Name
}

// OtherLanguages are the languages that the operator has named.
func (p *Pipeline) OtherLanguages() (names []string) {
	for _, r := range p.cfg.Runtimes {
		names = append(names, r.Name)
	}
	return names
}

// other is check for code in a language of the operator's, which is that of its session if nothing else says so. It returns false for any
// other. A cell's syntax is its kernel's to judge: it may use what earlier cells have defined, which Check knows nothing of.
func (r *run) other(c *plan, session string) (is bool, err error) {
	q := c.request
	code, language := q.Code, cmp.Or(q.Language, session)
	if q.Show {
		inner, named := notebook.Unfence(string(q.Code))
		_, unknown := validate.Language(named)
		if code = []byte(inner); unknown == nil || r.p.OtherLanguage(named, "") != "" {
			language = named
		}
	}
	t, is := r.p.runtimeOf(language, q.Name)
	switch {
	case q.CheckOnly && (!is || q.Session != ""):
		return true, refuse(StageValidate, "code of this language is checked without running it", "")
	case !is:
		return false, nil
	case q.Session != "" && t.Name != session:
		return true, otherLanguage(session, t.Name)
	case q.CheckOnly && t.Check == nil:
		return true, refuse(StageValidate, "nothing checks the syntax of "+t.Name+" without running it", remedy.Setting.With("runtimes."+t.Name+".check"))
	}
	commands := [][]string{t.Command, t.Compile}
	switch {
	case q.CheckOnly:
		commands = [][]string{t.Check}
	case q.Session != "":
		commands = nil
	}
	if err := t.here(c.backend.Name(), commands...); err != nil {
		return true, err
	}
	c.unfenced, c.shows = code, backends.AnyProgram
	c.program, err = validate.Other(t.Name, t.Extensions, t.line(q.CheckOnly), validate.Code{Name: q.Name, Source: code})
	if err != nil {
		return true, invalid(err)
	}
	return true, nil
}

// here returns an error if a program that commands need is not there.
func (t Runtime) here(backend string, commands ...[]string) error {
	program := missing(backend, commands...)
	if program == "" {
		return nil
	}
	return refuse(StageValidate, fmt.Sprintf("%s needs %s, which this machine does not have where programs see it", t.Name, program),
		"install it, or change ", remedy.Setting.With("runtimes."+t.Name))
}

func otherLanguage(session, code string) error {
	return refuse(StageValidate, fmt.Sprintf("the session runs %s, and this is %s", session, code), remedy.OtherLanguage)
}

// sessionLanguage returns a language of which a session on a backend can be, by one of its names, and what its sandbox shows.
func (p *Pipeline) sessionLanguage(name, backend string) (language, shows string, err error) {
	t, is := p.runtimeOf(name, "")
	switch {
	case is && t.Kernel == nil:
		return "", "", refuse(StageValidate, "code of "+t.Name+" runs without a session: its language has no kernel",
			"run it without one, or name a kernel as ", remedy.Setting.With("runtimes."+t.Name+".kernel"))
	case is:
		return t.Name, backends.AnyProgram, t.here(backend, t.Kernel)
	}
	if language, err = validate.Language(name); err != nil {
		others := ""
		if own := kernels(p.cfg.Runtimes); len(own) > 0 {
			others = "or one of the operator's own: " + strings.Join(slices.Sorted(maps.Keys(own)), ", ")
		}
		return "", "", refuse(StageValidate, err.Error(), others)
	}
	return language, language, nil
}

// kernels are those of the operator's languages.
func kernels(runtimes []Runtime) map[string]kernel.Own {
	all := map[string]kernel.Own{}
	for _, t := range runtimes {
		own := kernel.Own{Language: t.Name, Args: t.Kernel, Source: t.Driver}
		if t.Driver != "" {
			own.Args = []string{"sh", "-c", fmt.Sprintf("d=${TMPDIR:-/tmp}/kernel-$$; head -c %d <&3 >\"$d\" || exit; exec %s", len(t.Driver), words(t.Kernel, false))}
		}
		if t.Kernel != nil {
			all[t.Name] = own
		}
	}
	return all
}

// line is the begin of a command line, which the code's file follows, and its arguments.
func (t Runtime) line(check bool) []string {
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

// words writes a command for a shell, in which f is the file, p the program and d the driver. With file, it gets the file's name.
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

// missing returns a program that is needed and not there. Only of the backend process that is known before.
func missing(backend string, commands ...[]string) string {
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

// Offered tells of the operator's runtimes as a probe of a backend does.
func Offered(runtimes []Runtime, backend string) (all []backends.Runtime) {
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
		} else if program := missing(backend, t.Command, t.Compile, t.Kernel); program != "" {
			about.Path, about.Why = "", remedy.Text{"the configuration names " + program + ", which is not there: install it"}
		} else {
			about.Path = whereIs(first)
		}
		all = append(all, about)
	}
	return all
}

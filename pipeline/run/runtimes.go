package run

import (
	"cmp"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/validate"
	"github.com/sandboxmcp/sandboxmcp/validate/notebook"
)

// checkOwnLanguage is check for code in a language that the operator defined; session is the default language. It
// returns false for any other language. The kernel of a session checks the syntax of cells, which may use definitions
// of earlier cells that the check command does not know.
func checkOwnLanguage(r *pipeline.Run, c *plan, session string) (is bool, err error) {
	q := c.request
	code, language := q.Code, cmp.Or(q.Language, session)
	if q.Show {
		inner, named := notebook.Unfence(string(q.Code))
		_, unknown := validate.Language(named)
		if code = []byte(inner); unknown == nil || containment.OtherLanguage(r.Pipeline, named, "") != "" {
			language = named
		}
	}
	t, is := containment.RuntimeOf(r.Pipeline, language, q.Name)
	switch {
	case q.CheckOnly && (!is || q.Session != ""):
		return true, pipeline.Refuse(pipeline.StageValidate, "code of this language can't be checked without running it", "")
	case !is:
		return false, nil
	case q.Session != "" && t.Name != session:
		return true, containment.WrongLanguage(session, t.Name)
	case q.CheckOnly && t.Check == nil:
		return true, pipeline.Refuse(pipeline.StageValidate, "there is no command that checks the syntax of "+t.Name, "set ",
			remedy.Setting.With("runtimes."+t.Name+".check"))
	}
	commands := [][]string{t.Command, t.Compile}
	switch {
	case q.CheckOnly:
		commands = [][]string{t.Check}
	case q.Session != "":
		commands = nil
	}
	if err := containment.CheckPrograms(t, c.Backend.Name(), commands...); err != nil {
		return true, err
	}
	c.unfenced, c.shows = code, backends.AnyProgram
	c.program, err = validate.CheckCustom(t.Name, t.Extensions, containment.CommandLine(t, q.CheckOnly),
		validate.Code{Name: q.Name, Source: code})
	if err != nil {
		return true, invalid(err)
	}
	return true, nil
}

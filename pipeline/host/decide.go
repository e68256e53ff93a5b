package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Command is a command to decide about.
type Command struct {
	Words     Words
	Directory string // as Policy.Directory returned it
	Unseen    bool   // it gets input that was not there for whoever has approved its words: a shell would run that
}

// Decision is the permission for a command, with the pattern that gives it.
type Decision struct {
	Program Program
	Pattern Pattern
	By      string // Configuration, Safe or Approval
}

// Who allowed a command.
const (
	Configuration = "configuration"
	Approval      = "approval"
)

// Decide allows a command, by the configuration or by patterns that people have approved, or returns a *Refusal.
func (p *Policy) Decide(c Command, approved []Pattern) (Decision, error) {
	if err := c.Words.Check(); err != nil {
		return Decision{}, err
	}
	prog, err := p.Find(c.Words[0])
	if err != nil {
		return Decision{}, err
	}
	args := c.Words[1:]
	if err := p.forbidden(prog, args); err != nil {
		return Decision{}, err
	}
	grammar := p.grammarOf(prog)
	word, lacks := c.Words[0], true
	if grammar != nil {
		word, lacks = grammar.lacks(args, true, false)
	}
	if git, err := p.Find("git"); slices.Contains(prog.Names, "git") || err == nil && os.SameFile(git.file, prog.file) {
		named := args
		if !lacks { // then they are paths in the repository, or names
			named = nil
		}
		if why := gitDoubt(c.Directory, named); why != "" {
			return Decision{}, refuse("have a person look at the repository's configuration", "git is not run here: %s", why)
		}
	}
	but := ""
	for i, one := range slices.Concat(p.allowed, approved) {
		if own, err := p.Find(one.Program()); err != nil || own.Entry != prog.Entry || own.Path != prog.Path || !one.fits(args) {
			continue
		}
		by := Configuration
		if i >= len(p.allowed) {
			by = Approval
		}
		switch _, exact := one.fixed(); {
		case lacks && !exact:
			but = ", and " + one.String() + " does not cover " + quote(word, false)
		case lacks && by == Approval && c.Unseen:
			return Decision{}, refuse("leave the input out; a command that the operator has in host.allowed may have one", "a person has approved the words %s, and no input", one)
		default:
			return Decision{prog, one, by}, nil
		}
	}
	if p.safe && grammar != nil && p.harmless(grammar, args, c.Directory) {
		return Decision{prog, grammar.pattern(), Safe}, nil
	}
	return Decision{}, &Refusal{Ask: true, Reason: "nobody has allowed " + c.Words.String() + but, Remedy: remedy.Text{remedy.AskCommand.With(c.Words.String())}}
}

// forbidden is the refusal of what nobody can allow. A star in the operator's patterns matches anything: what they block stays
// blocked with options.
func (p *Policy) forbidden(prog Program, args []string) error {
	path, _ := os.Executable()
	own, err := os.Stat(path)
	if slices.ContainsFunc(prog.Names, func(name string) bool { return strings.HasPrefix(name, "sandboxmcp") }) || err == nil && os.SameFile(own, prog.file) {
		return refuse("nobody can allow this: have a person do it", "%s is sandboxmcp, by which an agent could answer its own questions", prog.Names[0])
	}
	for _, one := range p.blocked {
		named, err := p.Find(one.Program())
		hardLink := err == nil && named.Path != prog.Path && os.SameFile(named.file, prog.file)
		if (hardLink || slices.Contains(prog.Names, filepath.Base(one.Program()))) && one.each(args, blocks) {
			return refuse("nobody can allow this: the operator has blocked it", "the configuration blocks %s", one)
		}
	}
	return nil
}

// Askable returns an error that says why no person need be asked for a pattern: it could never match, or there is no such program.
// Its error is a *Refusal.
func (p *Policy) Askable(one Pattern) error {
	prog, err := p.Find(one.Program())
	if err != nil {
		return err
	}
	return p.useful(one, prog, p.grammarOf(prog))
}

// configured is Askable for the configuration. A program that is not installed may be some day.
func (p *Policy) configured(one Pattern) error {
	name := one.Program()
	prog, err := p.Find(name)
	if err == nil {
		return p.useful(one, prog, p.grammarOf(prog))
	}
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		return err
	}
	name = filepath.Base(name)
	return p.useful(one, Program{Names: []string{name}}, grammarNamed(name))
}

func (p *Policy) useful(one Pattern, prog Program, g *Grammar) error {
	args, exact := one.fixed()
	if exact {
		return p.forbidden(prog, args)
	}
	if g == nil {
		return refuse("leave out the star, and name the exact words", "%s has a star, and it is not known what words of %s do", one, one.Program())
	}
	if word, lacks := g.lacks(args, false, false); lacks {
		return refuse(remedy.AllowedForms, "%s has a star, and no pattern covers %q of %s: it can be allowed by its exact words", one, word, one.Program())
	}
	return nil
}

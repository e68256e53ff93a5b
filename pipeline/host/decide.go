package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Command is a command that Decide checks.
type Command struct {
	Words     Words
	Directory string // a result of Policy.Directory
	Unseen    bool   // it gets input that the person who approved the words did not see: a shell would run that
}

// Decision is the permission for a command, and the pattern that grants it.
type Decision struct {
	Program Program
	Pattern Pattern
	By      string // Configuration, Safe or Approval
}

// Origins of a permission.
const (
	Configuration = "configuration"
	Approval      = "approval"
)

// Decide checks a command against the configuration and the approved patterns. The error is a *Refusal.
func (p *Policy) Decide(c Command, approved []Pattern) (Decision, error) {
	if err := c.Words.Check(); err != nil {
		return Decision{}, err
	}
	prog, err := p.FindProgram(c.Words[0])
	if err == nil {
		err = p.forbidden(prog, c.Words[1:])
	}
	if err != nil {
		return Decision{}, err
	}
	one, by := p.allowedBy(prog, c, approved)
	switch {
	case by == "":
		text := c.Words.String()
		return Decision{}, &Refusal{Ask: true, Reason: "not allowed: " + text, Remedy: remedy.Text{remedy.AskCommand.With(text)}}
	case by == Approval && c.Unseen:
		const remedy = "leave the input out; a command that the operator has in host.allowed may have one"
		return Decision{}, refuse(remedy, "a person has approved the words %s, and no input", one)
	}
	if git, err := p.FindProgram("git"); slices.Contains(prog.Names, "git") || err == nil && os.SameFile(git.file, prog.file) {
		if why := p.gitDoubt(prog, c.Directory, c.Words[1:]); why != "" {
			return Decision{}, refuse("have a person look at the repository's configuration", "git is not run here: %s", why)
		}
	}
	return Decision{prog, one, by}, nil
}

// allowedBy returns the pattern that allows a command, and its origin: "" if none does.
func (p *Policy) allowedBy(prog Program, c Command, approved []Pattern) (Pattern, string) {
	safe := p.Harmless()
	for i, one := range slices.Concat(p.allowed, safe, approved) {
		own, err := p.FindProgram(one.Program())
		if err != nil || own.Entry != prog.Entry || own.Path != prog.Path || !one.matches(c.Words[1:]) || one.starDoubt(prog) != "" {
			continue
		}
		switch {
		case i < len(p.allowed):
			return one, Configuration
		case i >= len(p.allowed)+len(safe):
			return one, Approval
		case !slices.Contains(aroundThem, one.Program()) || p.isDirectoryAllowed(c.Directory):
			return one, Safe
		}
	}
	return Pattern{}, ""
}

// forbidden refuses a command that can't be approved. A star in the operator's blocking patterns matches any word, so
// that options don't evade them.
func (p *Policy) forbidden(prog Program, args []string) error {
	path, _ := os.Executable()
	own, err := os.Stat(path)
	if slices.ContainsFunc(prog.Names, func(name string) bool { return strings.HasPrefix(name, "sandboxmcp") }) || err == nil &&
		os.SameFile(own, prog.file) {
		return refuse("nobody can allow this: have a person do it", "%s is sandboxmcp, by which an agent could answer its own questions",
			prog.Names[0])
	}
	for _, one := range p.blocked {
		named, err := p.FindProgram(one.Program())
		hardLink := err == nil && named.Path != prog.Path && os.SameFile(named.file, prog.file)
		if (hardLink || slices.Contains(prog.Names, filepath.Base(one.Program()))) && one.blocks(args) {
			return refuse("nobody can allow this: the operator has blocked it", "the configuration blocks %s", one)
		}
	}
	return nil
}

// Askable returns an error, a *Refusal, if approving a pattern is pointless: it could never match, or its program
// does not exist.
func (p *Policy) Askable(one Pattern) error {
	prog, err := p.FindProgram(one.Program())
	if err != nil {
		return err
	}
	return p.checkUseful(one, prog)
}

// checkConfigured is Askable for the configuration. A missing program may be installed later.
func (p *Policy) checkConfigured(one Pattern) error {
	name := one.Program()
	prog, err := p.FindProgram(name)
	if err != nil {
		if strings.Contains(name, "/") && !filepath.IsAbs(name) {
			return err
		}
		prog = Program{Entry: name, Names: []string{filepath.Base(name)}}
	}
	return p.checkUseful(one, prog)
}

func (p *Policy) checkUseful(one Pattern, prog Program) error {
	if args, exact := one.fixed(); exact {
		return p.forbidden(prog, args)
	}
	if why := one.starDoubt(prog); why != "" {
		return refuse("leave out the star, and name the exact words", "%s has a star, and %s", one, why)
	}
	return nil
}

package host

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Command is a command to decide about.
type Command struct {
	Words     Words
	Directory string // as Policy.Directory returned it
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
	if err := p.block(prog, args, true); err != nil {
		return Decision{}, err
	}
	if err := p.ownBlock(prog, args); err != nil {
		return Decision{}, err
	}
	if slices.Contains(prog.Names, "git") {
		if why := gitDoubt(c.Directory); why != "" {
			return Decision{}, refuse("have a person look at the repository's configuration", "git is not run here: %s", why)
		}
	}
	matches := func(one Pattern) bool { return p.means(one, prog) && one.fits(args) }
	if i := slices.IndexFunc(p.allowed, matches); i >= 0 {
		return Decision{prog, p.allowed[i], Configuration}, nil
	}
	if i := slices.IndexFunc(approved, matches); i >= 0 {
		return Decision{prog, approved[i], Approval}, nil
	}
	if one, ok := p.harmless(prog, args, c.Directory); ok {
		return Decision{prog, one, Safe}, nil
	}
	return Decision{}, &Refusal{Ask: true, Reason: "nobody has allowed " + c.Words.String(),
		Remedy: remedy.Text{remedy.AskCommand.With(Exactly(c.Words).String())}}
}

// means reports whether a pattern's program is this one, by its place: not by what it is called only, nor by the file
// only, which may do something else under another name.
func (p *Policy) means(one Pattern, prog Program) bool {
	own, err := p.Find(one.Program())
	return err == nil && own.Entry == prog.Entry && own.Path == prog.Path
}

// block is the refusal of the built-in list, and of what a file is. What is not whole is the beginning of a pattern.
func (p *Policy) block(prog Program, args []string, whole bool) error {
	const nobody = "nobody can allow this: do it in a sandbox, or have a person do it"
	if name, why := blockReason(prog.Names); name != "" {
		return refuse(nobody, "%s is blocked: %s", name, why)
	}
	if l, ok := limitOf(prog.Names); ok {
		if word, bad := l.refused(args, whole); bad {
			return refuse(remedy.AllowedForms, "%s with %q is blocked: %s", l.Programs[0], word, l.Why)
		}
		return nil
	}
	if !system(prog.Path) || safeForm(prog.Names, args, whole) {
		return nil
	}
	if why := kind(prog.Path); why != "" {
		return refuse("do it in a sandbox, or have a person do it, or write a program of their own for it, outside of the system's directories", "%s is blocked: %s", prog.Path, why)
	}
	return nil
}

// ownBlock is the operator's. A star in their patterns matches anything: what they block stays blocked with options.
func (p *Policy) ownBlock(prog Program, args []string) error {
	for _, one := range p.blocked {
		if slices.Contains(prog.Names, filepath.Base(one.Program())) && one.each(args, token.anything) {
			return refuse("nobody can allow this: the operator has blocked it", "the configuration blocks %s", one)
		}
	}
	return nil
}

func (t token) anything(word string) bool {
	if !slices.ContainsFunc(t, isAny) {
		return word == t.text()
	}
	for i, one := range t {
		last := i == len(t)-1
		switch at := strings.Index(word, one.text); {
		case one.any:
		case i == 0 && at != 0, at < 0:
			return false
		case last:
			return strings.HasSuffix(word, one.text)
		default:
			word = word[at+len(one.text):]
		}
	}
	return true
}

// Askable returns an error that says why no person need be asked for a pattern: it would be blocked in any case, or
// there is no such program. Its error is a *Refusal.
func (p *Policy) Askable(one Pattern) error {
	if _, err := p.Find(one.Program()); err != nil {
		return err
	}
	return p.hopeless(one)
}

// hopeless returns an error that says why a pattern can never match. A program that is not installed may be some day.
func (p *Policy) hopeless(one Pattern) error {
	prog, err := p.Find(one.Program())
	if errors.As(err, new(*Refusal)) {
		if !filepath.IsAbs(one.Program()) && strings.Contains(one.Program(), "/") {
			return err
		}
		prog = Program{Names: []string{filepath.Base(one.Program())}}
	}
	args, whole := one.literal()
	if err := p.block(prog, args, whole); err != nil {
		return err
	}
	if whole {
		return p.ownBlock(prog, args)
	}
	return nil
}

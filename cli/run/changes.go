package run

import (
	"cmp"
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	review "github.com/sandboxmcp/sandboxmcp/cli/changes"
	"github.com/sandboxmcp/sandboxmcp/cli/console"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
)

// Changes is the value of --changes: what becomes of the changes to the workspace.
type Changes string

const (
	noChanges    Changes = ""
	AskChanges   Changes = "ask"   // the person at the terminal decides; without one, they are stored
	applyChanges Changes = "apply" // if the program ended with exit code 0
	dropChanges  Changes = "drop"
	WriteChanges Changes = "write" // applied whatever the exit code; not a value of the flag
)

// Set implements [cli.Generic]. --changes alone is "true".
func (v *Changes) Set(text string) error {
	switch choice := Changes(text); choice {
	case AskChanges, applyChanges, dropChanges:
		*v = choice
	case "true":
		*v = AskChanges
	default:
		return errors.New("use ask, apply or drop")
	}
	return nil
}

func (v *Changes) String() string { return string(*v) }

// IsBoolFlag has the flag package accept --changes without a value.
func (*Changes) IsBoolFlag() bool { return true }

// optionalValue is a flag whose value, if there is one, follows an equals sign.
type optionalValue struct{ *cli.GenericFlag }

func (optionalValue) TakesValue() bool { return false }

// ChangesFlag returns --changes.
func ChangesFlag(initial Changes, usage string) cli.Flag {
	return optionalValue{&cli.GenericFlag{Name: "changes", Value: &initial, Usage: usage}}
}

// ChangesOf returns the value of --changes.
func ChangesOf(c *cli.Context) Changes { return *c.Generic("changes").(*Changes) }

// openReviewer opens the terminal of the person who decides about changes; nil is nobody.
func (p commands) openReviewer(c *cli.Context, choice Changes) *console.Console {
	if choice == AskChanges && !c.Bool("quiet") && !c.Bool("json") && terminal.IsInteractive(p.In) && terminal.IsTerminal(p.Err) {
		return console.Open()
	}
	return nil
}

// decideChanges has the person, or the command line, decide about the changes of a run, and returns the error of the
// command: that of the run, unless the changes could not be applied.
func (p commands) decideChanges(c *cli.Context, reviewer *console.Console, choice Changes, set changes.Set, ended error) error {
	quiet := c.Bool("quiet") || c.Bool("json")
	if !quiet {
		if choice == dropChanges {
			p.Messagef("%s", set.Counts)
		} else {
			p.Messagef("%s", review.Summary(set))
		}
	}
	var done pipeline.Effect[changes.Applied]
	switch {
	case choice == dropChanges:
		done = workspace.Drop{Namespace: set.Namespace, ID: set.ID}
	case choice == applyChanges && ended == nil, choice == WriteChanges:
		done = workspace.Apply{Namespace: set.Namespace, ID: set.ID}
	case choice == applyChanges && !quiet:
		p.Messagef("the changes were not applied, since the exit code is not 0")
		return ended
	case reviewer == nil:
		return ended
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	err = wiring.WithParts(p.Streams, c, cfg, wiring.Purpose{}, func(ctx context.Context, parts *wiring.Parts) error {
		var failed error
		if done == nil {
			reviewer.Choose(ctx, "sandboxmcp: what should happen with the changes?", []string{"apply", "show", "drop", "keep"},
				func(word string) bool {
					switch word {
					case "apply":
						done = workspace.Apply{Namespace: set.Namespace, ID: set.ID}
					case "drop":
						done = workspace.Drop{Namespace: set.Namespace, ID: set.ID}
					case "show":
						var text string
						if text, failed = workspace.Diff(ctx, parts.Pipeline, set, nil); failed == nil {
							failed = review.PrintDiff(p.Err, text)
						}
						return failed != nil
					}
					return true
				})
		}
		if done == nil || failed != nil {
			return failed
		}
		answer, _, err := pipeline.Do(ctx, parts.Pipeline, done)
		if err == nil && !quiet {
			p.Messagef("%s", review.Result(answer))
		}
		return err
	})
	return cmp.Or(err, ended)
}

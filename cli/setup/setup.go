// Package setup puts sandboxmcp into the configuration of programs that start MCP servers, and takes it out again.
//
// A client with a command of its own for that, which is installed, is asked to do it. The files of others are changed
// where they are JSON, and for the rest setup prints what a person pastes. Guarantees: only our own entry changes, and
// comments stay; what was there before is kept beside the file; a file that can't be read with certainty is refused and
// not touched; a file is replaced in one step. After a client's own command the entry is read again: it is an error if
// that is not what it should be.
//
// Order of the files: command, target, setup, json, clients, place, file; and systemd and kubernetes, for what others
// start.
package setup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

// Server is the program that a client starts.
type Server struct {
	Name    string   // of the entry
	Command string   // an absolute path
	Args    []string // after it
}

// equals reports whether both start the same program with the same arguments.
func (s Server) equals(t Server) bool { return s.Command == t.Command && slices.Equal(s.Args, t.Args) }

// Change is a planned change to a client's file.
type Change struct {
	target
	after  []byte     // what is to be in it
	Runs   [][]string // the client's own commands, which write that; empty where setup does
	server Server
	had    bool // the file has an entry of its name
	remove bool
}

// changes reports whether there is something to do.
func (c Change) changes() bool { return len(c.Runs) > 0 || !bytes.Equal(c.data, c.after) }

var (
	errByHand = errors.New("setup does not edit files of its kind")
	errForm   = errors.New("its form is not one that can be edited safely")
)

// entry returns how the client's file starts the server of this name, and whether it has one. An entry of another form
// counts as there, without a command.
func (t target) entry(name string) (s Server, there bool, err error) {
	switch {
	case !t.there || t.snippet == inTOML && (t.dir != "" || !t.commands()):
		return s, false, nil
	case t.get != "":
		return t.askEntry(name)
	}
	all, err := t.decode(t.data)
	s, there = t.read(all, name)
	return s, there, err
}

// plan returns the change by which the client starts s, or does not start the server of its name any more. A read-only
// file, or one that can't be edited safely, is an error.
func (t target) plan(s Server, remove bool) (change Change, err error) {
	now, had, err := t.entry(s.Name)
	change = Change{target: t, after: t.data, server: s, had: had, remove: remove}
	switch {
	case err != nil:
	case t.snippet == inTOML && (t.dir != "" || !t.commands()):
		err = errByHand
	case remove && !had, !remove && now.equals(s):
	case t.snippet == inYAML:
		err = errByHand
	case !remove && had && now.Command == "":
		err = fmt.Errorf("the server %q there starts no program, it may be one behind a URL: %w", s.Name, errForm)
	case t.there && t.info.Mode().Perm()&0o200 == 0:
		err = errors.New("it is read-only: make it writable first")
	case t.commands():
		change.Runs = t.runs(s, remove, had)
	default:
		change.after, err = t.edit(t.data, s, remove)
	}
	if err != nil {
		err = fmt.Errorf("%q stays as it is: %w", t.path, err)
	}
	return change, err
}

// commands reports whether the client has commands of its own, which are installed here.
func (c Client) commands() bool {
	name, _, _ := strings.Cut(c.add, " ")
	_, err := exec.LookPath(name)
	return err == nil
}

// apply makes the change. A file that has changed since the change was planned is refused, and what it was is kept.
func (c Change) apply(ctx context.Context) error {
	if !c.changes() {
		return nil
	}
	err := c.check()
	if err == nil && c.there {
		err = c.write(c.path+backupSuffix, c.data)
	}
	if err == nil && len(c.Runs) == 0 {
		return c.write(c.path, c.after)
	}
	for _, words := range c.Runs {
		if err == nil {
			_, err = run(ctx, c.dir, words)
		}
	}
	if err != nil {
		return err
	}
	if c.file, err = open(c.path); err != nil {
		return err
	}
	now, there, err := c.entry(c.server.Name)
	if err == nil && (there == c.remove || there && !now.equals(c.server)) {
		err = fmt.Errorf("%s ended without an error, but did not do it: look at %q", c.Runs[0][0], c.path)
	}
	return err
}

// commandTimeout bounds one command of a client, of which some start in seconds.
const commandTimeout = time.Minute

// runs returns the client's own commands that make it start s, or no longer start the server of that name. An entry
// that is there is removed first: some clients refuse to replace one.
func (t target) runs(s Server, remove, there bool) (all [][]string) {
	scope := "user"
	if t.dir != "" {
		scope = "project"
	}
	if there {
		all = append(all, fill(t.remove, scope, s))
	}
	if !remove {
		all = append(all, fill(t.add, scope, s))
	}
	return all
}

// fill returns the words of a command, with those in capitals replaced.
func fill(command, scope string, s Server) (words []string) {
	for _, word := range strings.Fields(command) {
		switch word {
		case "SCOPE":
			word = scope
		case "NAME":
			word = s.Name
		case "COMMAND":
			word = s.Command
		case "ARGS":
			words = append(words, s.Args...)
			continue
		}
		words = append(words, word)
	}
	return words
}

// run runs a client's command in dir and returns its standard output. Its error has the reason that the command gave.
func run(ctx context.Context, dir string, words []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, &out, &stderr, time.Second
	if err := cmd.Run(); err != nil {
		output, why := strings.TrimSpace(cmp.Or(stderr.String(), out.String())), ""
		for line := range strings.Lines(output) {
			if why = line; strings.HasPrefix(line, "Error") { // a trace may follow
				break
			}
		}
		return nil, fmt.Errorf("%s: %w %s", shellLine(words), err, terminal.Visible(strings.TrimSpace(why)))
	}
	return out.Bytes(), nil
}

// shellLine returns a command to be typed.
func shellLine(words []string) string {
	words = slices.Clone(words)
	for i, word := range words {
		words[i] = terminal.ShellWord(word)
	}
	return strings.Join(words, " ")
}

// askEntry asks the client itself for the entry of a name, as entry does.
func (c Client) askEntry(name string) (s Server, there bool, err error) {
	out, err := run(context.Background(), "", fill(c.get, "", Server{Name: name}))
	if err != nil && strings.Contains(err.Error(), "No MCP server named") {
		return s, false, nil
	}
	var e struct{ Transport Server }
	if err == nil {
		err = json.Unmarshal(out, &e)
	}
	return e.Transport, err == nil, err
}

// Package setup adds sandboxmcp to the configuration of programs that start MCP servers, and removes it again.
//
// If a client has a command for this and is installed, setup runs it. Otherwise it edits JSON files, and for other
// formats prints the text for a person to paste. Guarantees: only our own entry changes, and comments stay; the
// previous content is backed up beside the file; a file that can't be parsed with certainty is refused and not touched;
// a file is replaced in one step. After a client's own command setup reads the entry again and returns an error if it
// is not as expected.
//
// Order of the files: command, target, setup, json, clients, machine, file; and systemd and kubernetes, for service
// managers.
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
	Command string   // absolute path
	Args    []string // after it
}

// equals reports whether both start the same program with the same arguments.
func (s Server) equals(t Server) bool { return s.Command == t.Command && slices.Equal(s.Args, t.Args) }

// Change is a planned change to a client's file.
type Change struct {
	target
	after  []byte     // new content
	Runs   [][]string // the client's own commands for the change; empty if setup edits the file
	server Server
	had    bool // the file has an entry of its name
	remove bool
}

// hasEffect reports whether there is anything to do.
func (c Change) hasEffect() bool { return len(c.Runs) > 0 || !bytes.Equal(c.data, c.after) }

var (
	errByHand = errors.New("setup does not edit files of its kind")
	errForm   = errors.New("its format can't be edited safely")
)

// entry returns the server of this name in the client's file, and whether there is one. An entry of an unknown form
// counts as one without a command.
func (t target) entry(name string) (s Server, there bool, err error) {
	switch {
	case !t.there || t.snippet == inTOML && (t.dir != "" || !t.hasCommands()):
		return s, false, nil
	case t.get != "":
		return t.askEntry(name)
	}
	all, err := t.decode(t.data)
	s, there = t.read(all, name)
	return s, there, err
}

// plan returns the change that adds s to the client's file, or removes the server of its name. A read-only file, or one
// that can't be edited safely, is an error.
func (t target) plan(s Server, remove bool) (change Change, err error) {
	now, had, err := t.entry(s.Name)
	change = Change{target: t, after: t.data, server: s, had: had, remove: remove}
	switch {
	case err != nil:
	case t.snippet == inTOML && (t.dir != "" || !t.hasCommands()):
		err = errByHand
	case remove && !had, !remove && now.equals(s):
	case t.snippet == inYAML:
		err = errByHand
	case !remove && had && now.Command == "":
		err = fmt.Errorf("the server %q there starts no program, it may be one behind a URL: %w", s.Name, errForm)
	case t.there && t.info.Mode().Perm()&0o200 == 0:
		err = errors.New("it is read-only: make it writable first")
	case t.hasCommands():
		change.Runs = t.clientCommands(s, remove, had)
	default:
		change.after, err = t.edit(t.data, s, remove)
	}
	if err != nil {
		err = fmt.Errorf("%q stays as it is: %w", t.path, err)
	}
	return change, err
}

// hasCommands reports whether the client has commands of its own and is installed.
func (c Client) hasCommands() bool {
	name, _, _ := strings.Cut(c.add, " ")
	_, err := exec.LookPath(name)
	return err == nil
}

// apply makes the change and backs up the file. A file that has changed since the plan is refused.
func (c Change) apply(ctx context.Context) error {
	if !c.hasEffect() {
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
			_, err = runClient(ctx, c.dir, words)
		}
	}
	if err != nil {
		return err
	}
	if c.file, err = openFile(c.path); err != nil {
		return err
	}
	now, there, err := c.entry(c.server.Name)
	if err == nil && (there == c.remove || there && !now.equals(c.server)) {
		err = fmt.Errorf("%s ended without an error, but did not do it: look at %q", c.Runs[0][0], c.path)
	}
	return err
}

// commandTimeout bounds one command of a client. Some take seconds to start.
const commandTimeout = time.Minute

// clientCommands returns the client's own commands that add s, or remove the server of its name. An existing entry is removed
// first: some clients refuse to replace one.
func (t target) clientCommands(s Server, remove, there bool) (all [][]string) {
	scope := "user"
	if t.dir != "" {
		scope = "project"
	}
	if there {
		all = append(all, fillCommand(t.remove, scope, s))
	}
	if !remove {
		all = append(all, fillCommand(t.add, scope, s))
	}
	return all
}

// fillCommand returns the words of a command, with those in capitals replaced.
func fillCommand(command, scope string, s Server) (words []string) {
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

// runClient runs a client's command in dir and returns its standard output. Its error includes the reason that the command
// printed.
func runClient(ctx context.Context, dir string, words []string) ([]byte, error) {
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

// shellLine formats a command line for a shell.
func shellLine(words []string) string {
	words = slices.Clone(words)
	for i, word := range words {
		words[i] = terminal.ShellWord(word)
	}
	return strings.Join(words, " ")
}

// askEntry asks the client itself for the entry of a name, as entry does.
func (c Client) askEntry(name string) (s Server, there bool, err error) {
	out, err := runClient(context.Background(), "", fillCommand(c.get, "", Server{Name: name}))
	if err != nil && strings.Contains(err.Error(), "No MCP server named") {
		return s, false, nil
	}
	var e struct{ Transport Server }
	if err == nil {
		err = json.Unmarshal(out, &e)
	}
	return e.Transport, err == nil, err
}

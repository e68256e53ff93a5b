package cli

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/cmdline"
	"github.com/sandboxmcp/sandboxmcp/cli/complete"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// valueSource returns the completions of a flag's value.
func valueSource(path, name, usage string) *complete.Source {
	s := &complete.Source{Words: usageChoices(usage)}
	switch name {
	case "language":
		s.Words = config.Languages()
		if path == "install" {
			s.Words = []string{"python", "node"}
		}
	case "backend":
		s.Words = append([]string{"process"}, wiring.EngineNames()...)
		if strings.HasPrefix(path, "image") {
			s.Words = wiring.EngineNames()
		}
	case "profile":
		s.Words = []string{config.Hardened, "landlock"}
	case "kind":
		if path == "events" {
			s.Words = event.Names()
		} else if strings.HasPrefix(path, "audit") {
			s.Words = event.Rows()
		} else if strings.HasPrefix(path, "host access") {
			s.Words = []string{"command", "read", "write"}
		}
	case "require":
		s.Words = config.Layers()
	case "gpus":
		s.Words = []string{"all", "none"}
	case "store":
		s.Words = []string{vault.InSealed, vault.InKeyring}
	case "for":
		if strings.Contains(usage, approval.ScopeSession) {
			s.Words = []string{approval.ScopeRun, approval.ScopeSession}
		}
	case "key":
		s.Files = true
	case "secret":
		s.Ask = askVault
	case "session":
		s.Ask = askSessions
	case "server":
		s.Ask = askServers
	case "id":
		s.Ask = askSessions
	default:
		if s.Words == nil {
			*s, _ = placeholderSource(cmdline.Placeholder(usage))
		}
	}
	return s
}

// usageChoices returns the words that a flag's usage lists after the name of its value, as in `FORMAT`: table, json or csv.
func usageChoices(usage string) (words []string) {
	_, list, _ := strings.Cut(usage, "`: ")
	list, _, _ = strings.Cut(list, " (")
	for _, part := range strings.Split(strings.ReplaceAll(list, " or ", ", "), ",") {
		word := strings.TrimSpace(part)
		if word == "" || strings.ContainsAny(word, " :./") {
			return nil // a sentence rather than a list
		}
		words = append(words, word)
	}
	return words
}

// placeholderSource returns the completions of a word in capitals in a usage, if it has any.
func placeholderSource(word string) (s complete.Source, known bool) {
	for _, kind := range strings.Split(strings.Trim(word, "[]."), "|") {
		name, _, _ := strings.Cut(kind, "[")
		switch name {
		case "FILE", "PATH", "RECEIPT", "SHA256SUMS", "HOST:PATH":
			return complete.Source{Files: true}, true
		case "DIR":
			return complete.Source{Dirs: true}, true
		case "SESSION", "SESSION_ID":
			return complete.Source{Ask: askSessions}, true
		case "REQUEST_ID":
			return complete.Source{Ask: askRuns}, true
		case "LANGUAGE":
			return complete.Source{Words: config.Languages()}, true
		}
	}
	return s, false
}

// argumentSource returns the completions of a command's argument, from its usage: the first word that is neither a flag nor a
// subcommand.
func argumentSource(path string, c *cli.Command) complete.Source {
	for line := range strings.Lines(c.UsageText) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "sandboxmcp "+path+" ")
		if !ok {
			continue
		}
		for _, word := range strings.Fields(stripFlags(line)) {
			word = strings.Trim(word, "[].")
			first, _, _ := strings.Cut(word, "|")
			if slices.Contains(cmdline.CommandNames(c.Subcommands), first) { // the rest belongs to the subcommand
				break
			}
			switch {
			case word == "" || word == "flags":
				continue
			case first == "NAME" && path == "token revoke":
				return complete.Source{Ask: askTokens}
			case first == "KEY" && strings.HasPrefix(path, "vault"):
				return complete.Source{Ask: askVault}
			case first == "KEY":
				return complete.Source{Files: true}
			case first == "ID" && strings.HasPrefix(path, "audit"):
				return complete.Source{Ask: askRuns}
			case first == "ID" && (strings.HasSuffix(path, "approve") || strings.HasSuffix(path, "deny")):
				return complete.Source{Ask: askApprovals}
			case word == strings.ToLower(word) && strings.Contains(word, "|"):
				return complete.Source{Words: strings.Split(word, "|")}
			}
			if s, known := placeholderSource(word); known {
				return s
			}
			break
		}
	}
	return complete.Source{}
}

// stripFlags returns a usage without its flags and their values.
func stripFlags(line string) string {
	var words []string
	after := false // the next word is a flag's value
	for _, word := range strings.Fields(line) {
		bare := strings.Trim(word, "[].")
		switch {
		case strings.HasPrefix(bare, "-"):
			after = !strings.HasSuffix(word, "]")
		case after:
			after = false
		default:
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

package backup

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// part is a kind of entry in the state directory.
type part struct {
	name     string // for people; a directory ends with a slash
	is       func() *regexp.Regexp
	included bool
	what     string // description, or the reason for which it is left out
}

// logName is the log's name in a backup, whatever its file is called.
const logName = "sandboxmcp.db"

// parts lists all entries of a state directory, and the log. A name without a row is a bug in this table, and backup
// reports it.
var parts = []part{
	newPart(logName, `sandboxmcp\.db`, true, "the log: its first file"),
	newPart(logName+"-files/", `sandboxmcp\.db-files(/sandboxmcp\.db\.[0-9]+)?`, true, "the log: the files that continue it"),
	newPart(logName+"-checkpoint", `sandboxmcp\.db-checkpoint`, true, "what was signed last"),
	newPart(logName+"-owed", `sandboxmcp\.db-owed`, true, "rows that could not be written yet"),
	newPart("keys/", `keys(/[^/]+\.(key|pub|next|revoked)|/\.spare)?`, true, "the key that signs, and what is known of those before it"),
	newPart("vault.db", `vault\.db`, true, "the secrets, as they are sealed"),
	newPart("vault.key", `vault\.key`, true, "the key that opens them, also where it is in the keyring of the operating system"),
	newPart("tokens.json", `tokens\.json`, true, "what tells tokens to be right; not the tokens themselves"),
	newPart("runs/", `runs(/[0-9A-Z]{26}(/.+)?)?`, true, "results, output and artifacts of runs that are kept"),
	newPart("history/", `history(/[^/]+)?`, true, "what was typed in sessions"),

	newPart("changes/", `changes(/.*)?`, false, "change sets, which belong to directories of this machine"),
	newPart("packages/", `packages(/.*)?`, false, "sandboxmcp install has them again"),
	newPart("vault.key.next", `vault\.key\.next`, false, "of a change of the key; the key in force is kept as vault.key"),
	newPart("server.log, server.json", `server\.(log|json)`, false, "of the server that start has started"),
	newPart("temporary", `(tmp|work|c|instances|run)(/.*)?|start\.lock|tokens\.lock|keys/lock|(.*/)?\.new-.*`, false,
		"locks, sockets and directories of what runs"),
	newPart(logName+"-...", `(sandboxmcp\.db(-files/sandboxmcp\.db\.[0-9]+)?|vault\.db)-(wal|shm|journal)`, false,
		"of the databases, whose copies are whole without"),
	newPart(logName+"-running/", `sandboxmcp\.db-(checkpoint\.new|running(/.*)?|reserve|acknowledged)`, false,
		"of what writes to the log now"),
}

func newPart(name, pattern string, included bool, what string) part {
	// compiled on first use, since every command initialises this table
	is := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)^(` + pattern + `)$`) })
	return part{name, is, included, what}
}

// findPart returns the row that matches a name in the state directory, or nil.
func findPart(name string) *part {
	for i, p := range parts {
		if p.is().MatchString(name) {
			return &parts[i]
		}
	}
	return nil
}

// isIncluded reports whether a backup may contain a file of that name.
func isIncluded(name string) bool {
	p := findPart(name)
	return p != nil && p.included
}

// describeParts lists the rows for the help.
func describeParts(included bool) string {
	var b strings.Builder
	for _, p := range parts {
		if p.included == included {
			fmt.Fprintf(&b, "  %-28s %s\n", p.name, p.what)
		}
	}
	return b.String()
}

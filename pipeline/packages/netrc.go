package packages

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// fromNetrc adds the logins that pip would find in the user's netrc, for hosts of sources whose
// URLs name none.
func (s *settings) fromNetrc() {
	name := os.Getenv("NETRC")
	if name == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return
		}
		name = filepath.Join(home, ".netrc")
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return // most have none
	}
	logins := netrc(string(b))
	for _, src := range s.sources {
		l, ok := logins[strings.ToLower(src.base.Hostname())]
		if !ok || s.authorize(src.base) != "" {
			continue
		}
		s.hide(l.password)
		r := http.Request{Header: http.Header{}}
		r.SetBasicAuth(l.name, l.password)
		s.credentials = append(s.credentials, credential{"//" + address(src.base) + "/", r.Header.Get("Authorization")})
	}
}

// login is a user's name and password at one machine.
type login struct{ name, password string }

// netrc returns the logins of a netrc file, by machine. The default entry is left out: it is not meant
// for registries. Reading ends at it, at a macro, and at a mistake.
func netrc(text string) map[string]login {
	all := map[string]login{}
	machine := ""
	for words := strings.Fields(text); len(words) > 1; words = words[2:] {
		l := all[machine]
		switch value := strings.Trim(words[1], `"`); words[0] {
		case "machine":
			machine = strings.ToLower(value)
			continue
		case "login":
			l.name = value
		case "password":
			l.password = value
		case "account":
		default: // "default", "macdef" or a mistake: nothing after it is a machine's for sure
			return all
		}
		if machine != "" {
			all[machine] = l
		}
	}
	return all
}

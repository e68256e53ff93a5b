package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/egress"
)

// policyName is the name of a project's own policy. It comes with the repository, so it has no effect until the person
// has accepted its content.
const policyName = ".sandboxmcp.yaml"

// maxPolicy bounds a policy, in bytes.
const maxPolicy = 64 << 10

// policy is a project's own.
type policy struct {
	path  string
	text  []byte   // nil without a file
	Allow []string `yaml:"allow"` // names that agents may reach
}

// readPolicy reads the policy of a project, which may have none. Unknown keys are errors, and so are names that no policy
// can have and ports of this machine.
func readPolicy(project string) (policy, error) {
	p := policy{path: filepath.Join(project, policyName)}
	dir, err := hostfs.OpenDir(project)
	if err != nil {
		return p, err
	}
	defer dir.Close()
	f, info, err := statefile.OpenIn(dir.Lstat, dir.OpenFile, policyName)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil || info.Size() > maxPolicy {
		return p, exit.Fail("put a file with a list called allow there, or remove it", "%s is not a regular file of at most %d KB", policyName,
			maxPolicy>>10)
	}
	defer f.Close()
	if p.text, err = io.ReadAll(io.LimitReader(f, maxPolicy)); err != nil {
		return p, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(p.text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&p); err != nil && !errors.Is(err, io.EOF) {
		why, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "yaml: unmarshal errors:\n"), " in type ")
		return p, exit.Fail("it has one key, allow, with a list of names", "%s: %s", policyName, strings.TrimSpace(why))
	}
	if local, _ := egress.CutLocal(p.Allow); len(local) > 0 {
		return p, exit.Fail("--allow opens one for this time", "%s: ports of this machine can't be allowed there", policyName)
	}
	if _, err := egress.NewPolicy(p.Allow, nil); err != nil {
		return p, exit.Fail("write names such as example.com, *.example.com or example.com:8443", "%s: %v", policyName, err)
	}
	return p, nil
}

// trustFile has the SHA-256 of each accepted policy and its path, one a line.
func trustFile(cfg config.Config) string { return filepath.Join(wiring.HomesDir(cfg), "policies") }

// trustLine binds the content to the place: the same words in another project were not accepted.
func (p policy) trustLine() string {
	sum := sha256.Sum256(p.text)
	return hex.EncodeToString(sum[:]) + " " + strings.ReplaceAll(p.path, "\n", "?")
}

// isTrusted reports whether the person has accepted this policy.
func isTrusted(cfg config.Config, p policy) bool {
	text, err := os.ReadFile(trustFile(cfg))
	return err == nil && slices.Contains(strings.Split(string(text), "\n"), p.trustLine())
}

// trust records that the person has accepted a policy.
func trust(cfg config.Config, p policy) error {
	if isTrusted(cfg, p) {
		return nil
	}
	text, err := os.ReadFile(trustFile(cfg))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(wiring.HomesDir(cfg), 0o700); err != nil {
		return err
	}
	return statefile.Replace(trustFile(cfg), "policies", append(text, p.trustLine()+"\n"...), 0o600)
}

// remember adds names to the project's policy and accepts it.
func remember(cfg config.Config, project string, hosts []string) error {
	p, err := readPolicy(project)
	if err != nil {
		return err
	}
	all := slices.Clone(p.Allow)
	for _, host := range hosts {
		if !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	var b bytes.Buffer
	b.WriteString("# What agents of this project may reach: sandboxmcp agent asks before it reads this.\n")
	if err := yaml.NewEncoder(&b).Encode(map[string][]string{"allow": all}); err != nil {
		return err
	}
	dir, err := hostfs.OpenDir(project)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := hostfs.Replace(dir, policyName, 0o644, func(f *os.File) error { _, err := f.Write(b.Bytes()); return err }); err != nil {
		return err
	}
	p.text = b.Bytes()
	return trust(cfg, p)
}

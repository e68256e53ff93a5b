package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/console"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/cli/setup"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	pipelinerun "github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// session is one start of an agent.
type session struct {
	commands
	agent       setup.Agent
	login       bool
	interactive bool
	args        []string
	project     string
	home        string
	cfg         config.Config
	allowed     egress.Policy // before anybody was asked
	named       []string      // hosts of --allow and --packages
	remember    bool
	ended       string // why watch has ended it
	unlock      func()
}

func (p commands) newSession(c *cli.Context, args []string, login bool) (*session, error) {
	cfg, err := wiring.Load(c)
	if err != nil {
		return nil, err
	}
	a, err := find(c, cfg)
	if err != nil {
		return nil, err
	}
	s := &session{commands: p, agent: a, login: login, args: args, cfg: cfg, remember: c.Bool("remember")}
	s.interactive = !c.Bool("json") && terminal.IsInteractive(p.In) && terminal.IsTerminal(p.Out)
	if login && !s.interactive {
		return nil, exit.Usage("start it on a terminal", "login needs a terminal for input and output")
	}
	if s.project, err = projectDir(c); err != nil {
		return nil, err
	}
	if err := checkProject(s.project); err != nil {
		return nil, err
	}
	s.home = homeDir(cfg, a.Name, s.project)
	return s, nil
}

// prepare makes the home, and returns the configuration and the request of the session.
func (s *session) prepare(ctx context.Context, c *cli.Context) (config.Config, pipelinerun.Request, error) {
	var q pipelinerun.Request
	program := s.agent.Installed()
	if program == "" {
		return s.cfg, q, exit.Usage("install "+s.agent.Title+" first; sandboxmcp agent list has those that are here",
			"there is no program %s on PATH", s.agent.Program)
	}
	if err := s.openHome(ctx); err != nil {
		return s.cfg, q, err
	}
	own, err := s.projectPolicy(ctx)
	if err != nil {
		return s.cfg, q, err
	}
	secrets, bound, keyFlags, err := s.keys(ctx, c)
	if err != nil {
		return s.cfg, q, err
	}
	s.named = slices.Clone(c.StringSlice("allow"))
	if c.Bool("packages") {
		s.named = append(s.named, registryHosts(ctx, s.project)...)
	}
	model, modelEnv := modelHost(s.agent)
	if err := s.allow(slices.Concat(own.Allow, bound, s.named, model)); err != nil {
		return s.cfg, q, err
	}
	flags, args := s.agent.Flags, s.args
	if s.login {
		flags, keyFlags, args = nil, nil, s.agent.Login
	}
	q = pipelinerun.Request{
		Namespace: c.String("namespace"), Client: s.agent.Name,
		Command: slices.Concat(s.renameKeys(secrets), []string{program}, flags, keyFlags, args),
		Env:     slices.Concat(homeEnv(), s.agent.Env, modelEnv, c.StringSlice("env")),
		Reach:   pipelinerun.Reach{Secrets: secrets, Typed: true},
	}
	q.Stdin, q.Mounts, q.Home = s.In, programMounts(program), s.home
	if !s.login {
		q.Workspace = backends.Mount{Host: s.project, Propose: true}
	}
	q.Limits = s.limits()
	if s.cfg.GitAuthor == "" {
		s.cfg.GitAuthor = gitAuthor(ctx)
	}
	return s.cfg, q, nil
}

// openHome makes the agent's home for the project, unless it has one, and locks it for this process.
func (s *session) openHome(ctx context.Context) (err error) {
	if s.unlock, err = lockHome(ctx, s.home, true); err != nil {
		return exit.Fail("wait for the end of sandboxmcp agent reset", "the home %s is in use: %v", s.home, err)
	}
	if size, files := measureTree(s.home); size > maxHomeBytes || files > maxHomeFiles {
		return exit.Fail("sandboxmcp agent reset "+s.agent.Name, "the agent's home %s is too large: %d MB, %d files", s.home, size>>20, files)
	}
	return makeHome(s.agent, s.home, func(names []string) bool {
		return s.confirm(ctx, fmt.Sprintf("sandboxmcp: copy your settings to the agent's home: %s?", strings.Join(names, ", ")))
	})
}

// confirm asks the person a question; without a terminal, the answer is no.
func (s *session) confirm(ctx context.Context, question string) (yes bool) {
	if !s.interactive {
		return false
	}
	person := console.Open()
	if person == nil {
		return false
	}
	defer person.Close()
	person.Choose(ctx, question, []string{"yes", "no"}, func(word string) bool { yes = word == "yes"; return true })
	return yes
}

// projectPolicy returns the project's own policy, if the person has accepted it or accepts it now.
func (s *session) projectPolicy(ctx context.Context) (policy, error) {
	own, err := readPolicy(s.project)
	if err != nil || len(own.Allow) == 0 || isTrusted(s.cfg, own) {
		return own, err
	}
	if !s.confirm(ctx, fmt.Sprintf("sandboxmcp: %s of this project wants agents to reach %s: accept it?", policyName,
		terminal.Visible(strings.Join(own.Allow, ", ")))) {
		s.Messagef("%s of this project has no effect: nobody has accepted it", policyName)
		return policy{}, nil
	}
	return own, trust(s.cfg, own)
}

// keys returns the keys of the agent that the vault has, the hosts that they are bound to, and the flags by which the
// agent uses them.
func (s *session) keys(ctx context.Context, c *cli.Context) (secrets, hosts, flags []string, err error) {
	v := wiring.OpenVault(s.cfg)
	for _, key := range s.agent.Keys {
		if s.login || slices.ContainsFunc(c.StringSlice("env"), func(kv string) bool { return strings.HasPrefix(kv, key.Variable+"=") }) {
			continue
		}
		lease, err := v.Lease(ctx, c.String("namespace"), []string{key.Variable})
		if errors.Is(err, vault.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, nil, nil, err
		}
		bound := lease.Bound()
		lease.Close()
		if len(bound) == 0 {
			return nil, nil, nil, exit.Fail("sandboxmcp vault add "+key.Variable+" --host "+key.Host+" --replace",
				"the secret %s is bound to no host, so the agent would see it", key.Variable)
		}
		secrets, hosts = append(secrets, key.Variable), append(hosts, bound[0].Hosts...)
		if flags == nil {
			flags = key.Flags
		}
	}
	return secrets, hosts, flags, nil
}

// renameKeys returns the start of a command line that moves keys to the variables that the agent has instead.
func (s *session) renameKeys(secrets []string) []string {
	script := ""
	for _, key := range s.agent.Keys {
		if key.As != "" && slices.Contains(secrets, key.Variable) {
			script += fmt.Sprintf(`export %s="$%s"; unset %[2]s; `, key.As, key.Variable)
		}
	}
	if script == "" {
		return nil
	}
	return []string{"/bin/sh", "-c", script + `exec "$@"`, "sh"}
}

// modelHost returns the host of the model that a variable of this process names, and the variable.
func modelHost(a setup.Agent) (host, env []string) {
	u, err := url.Parse(os.Getenv(a.BaseURL))
	if a.BaseURL == "" || err != nil || u.Host == "" || u.User != nil {
		return nil, nil
	}
	return []string{u.Host}, []string{a.BaseURL + "=" + u.String()}
}

// allow sets the network policy of the session: hosts, and those of the agent and the operator.
func (s *session) allow(hosts []string) error {
	hosts = slices.Concat(strings.Fields(s.agent.Hosts), hosts)
	if s.login {
		hosts = append(hosts, strings.Fields(s.agent.SignIn)...)
	}
	local, hosts := egress.CutLocal(hosts)
	e := &s.cfg.Egress
	e.Allow, e.Local = slices.Concat(e.Allow, hosts), slices.Concat(e.Local, local)
	e.Deny = slices.Clone(e.Deny)
	named, err := egress.NewPolicy(hosts, nil)
	if err != nil {
		return exit.Usage("--allow example.com", "--allow: %v", err)
	}
	for _, host := range strings.Fields(s.agent.Noise) {
		if !named.Covers(host) {
			e.Deny = append(e.Deny, host)
		}
	}
	if s.allowed, err = egress.NewPolicy(e.Allow, e.Deny); err != nil {
		return exit.Usage("sandboxmcp config shows where it is set", "egress: %v", err)
	}
	s.allowed = s.allowed.WithLocal(e.Local)
	s.cfg.Network = "deny"
	if s.interactive {
		s.cfg.Network = "ask"
	}
	return nil
}

// Limits of an agent, if the operator's caps and this machine have as much.
const (
	agentMB        = 4096
	agentProcesses = 2048
	agentDiskMB    = 8192
	agentSeconds   = 2_592_000 // the maximum of the setting
)

// limits returns the limits of a session. An agent works for as long as the person likes, unless the operator has set a
// cap.
func (s *session) limits() (l backends.Limits) {
	half := int64(agentMB)
	if total := machineMB(); total > 0 {
		half = total / 2
	}
	caps := &s.cfg.Caps
	if s.cfg.From("caps.timeout_seconds") == config.Default {
		caps.TimeoutSeconds = agentSeconds
	}
	l.RAM = min(agentMB, half, caps.RAMMB) << 20
	l.Disk = min(agentDiskMB, max(half, 512), caps.DiskMB) << 20
	l.Processes = int(min(agentProcesses, caps.Processes))
	l.CPU = caps.CPUCores
	l.Wall = time.Duration(caps.TimeoutSeconds * float64(time.Second))
	return l
}

// machineMB returns the memory of this machine, by proc_meminfo(5); 0 is unknown.
func machineMB() (total int64) {
	text, _ := os.ReadFile("/proc/meminfo") // other systems have none
	if _, after, found := bytes.Cut(text, []byte("MemTotal:")); found {
		_, _ = fmt.Sscan(string(after[:min(len(after), 40)]), &total)
	}
	return total >> 10
}

// homeEnv has programs keep their settings and caches in the home, and colours as this terminal has them.
func homeEnv() []string {
	const home = pipelinerun.Home
	env := []string{"XDG_CONFIG_HOME=" + home + "/.config", "XDG_CACHE_HOME=" + home + "/.cache", "XDG_DATA_HOME=" + home + "/.local/share",
		"XDG_STATE_HOME=" + home + "/.local/state", "npm_config_cache=" + home + "/.npm"}
	if colours := os.Getenv("COLORTERM"); colourName().MatchString(colours) {
		env = append(env, "COLORTERM="+colours)
	}
	return env
}

var colourName = lazy.Regexp(`^[a-z0-9]{1,16}$`)

// gitAuthor returns the person's name and address by their own git configuration, and nothing else of it.
func gitAuthor(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	out, _ := exec.CommandContext(ctx, "git", "config", "--global", "--get-regexp", `^user\.(name|email)$`).Output() // none without git
	var name, email string
	for line := range bytes.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		switch key {
		case "user.name":
			name = value
		case "user.email":
			email = value
		}
	}
	author := name + " <" + email + ">"
	if checked, _ := config.SplitAuthor(author); checked == "" {
		return ""
	}
	return author
}

// finish writes the hosts that were allowed to the project's policy, if that was asked for, and releases the home.
func (s *session) finish(res pipeline.Outcome) {
	if s.unlock != nil {
		s.unlock()
	}
	if s.ended != "" {
		s.Messagef("the agent was ended: %s; sandboxmcp agent reset %s removes its home", s.ended, s.agent.Name)
	}
	if !s.remember || res.ID == "" {
		return
	}
	_, hosts := egress.CutLocal(s.named)
	for _, d := range res.Egress {
		if d.Allowed && !s.allowed.Decide(d.Name, d.Port).Allowed {
			hosts = append(hosts, patternOf(d.Decision))
		}
	}
	slices.Sort(hosts)
	if hosts = slices.Compact(hosts); len(hosts) == 0 {
		return
	}
	if err := remember(s.cfg, s.project, hosts); err != nil {
		s.Messagef("warning: %s was not written: %v", filepath.Join(s.project, policyName), err)
		return
	}
	s.Messagef("%s allows %s from now on", policyName, strings.Join(hosts, ", "))
}

// patternOf returns the pattern that allows the name of a decision, and its port if that is not one of the web's.
func patternOf(d egress.Decision) string {
	if d.Port == 0 || slices.Contains(egress.WebPorts(), d.Port) {
		return d.Name
	}
	return d.Host()
}

// reportUnreached prints the hosts that the agent was refused, with the line that allows each, but not those that it does
// without.
func (s *session) reportUnreached(all []egress.Record) {
	noise, _ := egress.NewPolicy(strings.Fields(s.agent.Noise), nil) // a test checks the patterns
	for _, d := range all {
		switch {
		case d.Allowed && !d.Failed, noise.Covers(d.Name):
		case d.Failed:
			s.Messagef("%s can't be reached: %s", terminal.Visible(d.Name), terminal.Visible(d.Reason))
		case d.Ask == "":
			s.Messagef("refused: %s: %s", terminal.Visible(d.Host()), terminal.Visible(d.Reason))
		default:
			s.Messagef("refused: %s; to allow it: sandboxmcp agent %s --allow %s", terminal.Visible(d.Host()), s.agent.Name,
				terminal.Visible(patternOf(d.Decision)))
		}
	}
}

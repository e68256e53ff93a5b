package setup

import (
	_ "embed"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
)

//go:embed systemd.units
var systemdUnits string

// systemdCommand returns the command that prints units. Delegate allows cgroups for runs; more of systemd's hardening
// would remove the namespaces that sandboxes need.
func (p commands) systemdCommand() *cli.Command {
	return &cli.Command{
		Name:      "systemd",
		Usage:     "print systemd units that start the server when the first client connects",
		UsageText: "sandboxmcp setup systemd [--listen ADDRESS]",
		Description: `The units are system units for root, and those of your user otherwise. Each begins with its path. Then:

  systemctl daemon-reload && systemctl enable --now sandboxmcp.socket

Example: sandboxmcp setup systemd --listen /run/sandboxmcp/sandboxmcp.sock`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Usage: "`ADDRESS` of the socket: HOST:PORT, or the path of a Unix socket", Value: "127.0.0.1:8750"},
		},
		Action: command.NoWords(p.systemd),
	}
}

// systemd prints the units for this program and their directories: the system's for root, else the user's.
func (p commands) systemd(c *cli.Context) error {
	program, err := thisProgram()
	if err != nil {
		return err
	}
	if isGoRun(program) {
		return exit.Fail("go install ./cli/sandboxmcp, and use the program that it makes", "go run built this program and will remove it")
	}
	dir, target := "/etc/systemd/system", "multi-user.target"
	if os.Geteuid() != 0 {
		config, err := os.UserConfigDir()
		if err != nil {
			return exit.Fail("set HOME", "%v", err)
		}
		dir, target = filepath.Join(config, "systemd/user"), "default.target"
	}
	files, err := command.FileArgs(c)
	if err != nil {
		return err
	}
	words := append([]string{program}, files...)
	for i, w := range words {
		words[i] = unitWord(w)
	}
	listen := c.String("listen")
	if listen == "" || strings.ContainsAny(listen, " \t\n") {
		return exit.Usage("--listen 127.0.0.1:8750", "%q is not an address", listen)
	}
	_, err = strings.NewReplacer("@DIR@", dir, "@LISTEN@", strings.ReplaceAll(listen, "%", "%%"), "@PROGRAM@", strings.Join(words, " "),
		"@TARGET@", target).
		WriteString(p.Out, systemdUnits)
	return err
}

// unitWord quotes a word of ExecStart, in which systemd expands % and $: systemd.service(5).
func unitWord(w string) string {
	w = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$", "\n", `\n`).Replace(w)
	if strings.ContainsAny(w, " \t';\\\"") {
		return `"` + w + `"`
	}
	return w
}

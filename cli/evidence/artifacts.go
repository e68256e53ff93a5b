package evidence

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"
	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

func (p commands) artifactsCommand() *cli.Command {
	return &cli.Command{
		Name:  "artifacts",
		Usage: "list and fetch stored files, output and receipts of runs",
		UsageText: `sandboxmcp artifacts [--namespace NS] [--json]
sandboxmcp artifacts REQUEST_ID [--verify] [--json]
sandboxmcp artifacts REQUEST_ID NAME [--out FILE|DIR] [--verify]
sandboxmcp artifacts REQUEST_ID --out DIR [--verify]`,
		Description: `Without REQUEST_ID it lists the runs with stored files, with it the files of that run. NAME is a listed file,
or stdout, stderr or receipt.intoto.json; it goes to standard output, or to --out. --out without NAME saves all files
with a SHA256SUMS and the receipt, so that sandboxmcp verify can check them.

It needs no server. Servers store files for keep.hours, up to keep.max_mb. Files of sandboxmcp run are not stored
here, but in the directory of its --artifacts.

Examples:
  sandboxmcp artifacts 01K9ZB5W7Q3M8Y2D4F6H8J0K2M
  sandboxmcp artifacts 01K9ZB5W7Q3M8Y2D4F6H8J0K2M plot.png --out plot.png
  sandboxmcp artifacts 01K9ZB5W7Q3M8Y2D4F6H8J0K2M --out results --verify`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Usage: "save it as the new file `PATH`, or in that directory"},
			&cli.BoolFlag{Name: "verify", Usage: "verify the files with the run's signed receipt, too"},
			&cli.StringFlag{Name: "namespace", Usage: "only runs of the namespace `NS`"},
			command.JSONFlag(),
		},
		Action: p.artifacts,
	}
}

// storedRun is a run with stored files, in the JSON output.
type storedRun struct {
	Run       string    `json:"run"`
	Namespace string    `json:"namespace"`
	Session   string    `json:"session,omitempty"`
	Language  string    `json:"language"`
	Script    string    `json:"script"`
	Ended     string    `json:"ended"`
	ExitCode  int       `json:"exit_code"`
	Time      time.Time `json:"time"`
	Until     time.Time `json:"kept_until"` // at the latest: a full store removes it earlier

	Stdout    *int64       `json:"stdout_bytes,omitempty"` // only with a run's id
	Stderr    *int64       `json:"stderr_bytes,omitempty"`
	Artifacts []storedFile `json:"artifacts"`

	Verified *verification `json:"verified,omitempty"`
}

type storedFile struct {
	fileName
	Size     int64  `json:"size_bytes"`
	SHA256   string `json:"sha256"`
	MIME     string `json:"mime"`
	Withheld string `json:"withheld,omitempty"` // reason for which it is withheld
}

// fileName is the name of a file in the JSON output.
type fileName struct {
	Name       string `json:"name"`
	NameBase64 string `json:"name_base64,omitempty"` // for a name that is not UTF-8
}

func fileNameOf(name string) fileName {
	if utf8.ValidString(name) {
		return fileName{Name: name}
	}
	return fileName{terminal.Visible(name), base64.StdEncoding.EncodeToString([]byte(name))}
}

func (p commands) artifacts(c *cli.Context) error {
	if c.NArg() > 2 {
		return exit.Usage("sandboxmcp artifacts "+c.Args().First()+" --out DIR", "artifacts fetches one NAME, or all with --out")
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	dir := wiring.ResultsDir(cfg)
	if c.NArg() == 0 {
		if set := setFlags(c, "out", "verify"); len(set) > 0 {
			return exit.Usage("sandboxmcp artifacts REQUEST_ID --"+set[0], "--%s needs a REQUEST_ID", set[0])
		}
		return p.listStored(c, cfg, dir)
	}
	id := strings.ToUpper(c.Args().First())
	if _, err := os.Stat(dir); err != nil {
		return p.notStoredError(c, cfg, id)
	}
	store, err := wiring.OpenResults(cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	r, err := store.Get(id)
	switch {
	case err == nil && c.IsSet("namespace") && r.Namespace != c.String("namespace"):
		return exit.Fail("leave --namespace out", "run %s belongs to another namespace", terminal.Visible(id))
	case errors.Is(err, results.ErrUnknown):
		return p.notStoredError(c, cfg, id)
	case err != nil:
		return err
	}
	left := &storedFiles{Record: r, results: store, cfg: cfg}
	switch {
	case c.NArg() == 2:
		return p.fetchOne(c, left, c.Args().Get(1))
	case c.IsSet("out"):
		return p.fetchAll(c, left)
	}
	return p.printStored(c, left)
}

// storedFiles are the stored files of a run.
type storedFiles struct {
	results.Record
	results *results.Store
	cfg     config.Config
}

// listStored lists the runs with stored files.
func (p commands) listStored(c *cli.Context, cfg config.Config, dir string) error {
	var runs []results.Record
	if _, err := os.Stat(dir); err == nil { // listing must not create it
		store, err := wiring.OpenResults(cfg)
		if err != nil {
			return err
		}
		defer store.Close()
		runs = store.List(results.Filter{Namespace: c.String("namespace")})
	}
	list := []storedRun{}
	for _, r := range runs {
		list = append(list, storedRunOf(r, cfg))
	}
	columns := []terminal.Column{{Name: "RUN", Whole: true}, {Name: "TIME", Spare: true}, {Name: "NAMESPACE", Spare: true}, {Name: "ENDED"},
		{Name: "FILES", Right: true},
		{Name: "BYTES", Right: true, Spare: true}}
	return command.Table(p.Streams, c, list, "nothing is kept of any run", columns, func(k storedRun) []string {
		size := int64(0)
		for _, f := range k.Artifacts {
			size += f.Size
		}
		return []string{k.Run, k.Time.Local().Format(time.DateTime), k.Namespace, k.Ended, fmt.Sprint(len(k.Artifacts)), fmt.Sprint(size)}
	})
}

func storedRunOf(r results.Record, cfg config.Config) storedRun {
	k := storedRun{
		Run: r.ID, Namespace: r.Namespace, Session: r.Session, Language: r.Language, Script: r.Name,
		Ended: r.Ended, ExitCode: r.ExitCode, Time: r.Time, Until: r.Time.Add(time.Duration(cfg.Keep.Hours) * time.Hour),
		Artifacts: []storedFile{},
	}
	for _, a := range r.Artifacts {
		k.Artifacts = append(k.Artifacts, storedFile{fileNameOf(a.Name), a.Size, a.SHA256, a.MIME, a.Withheld})
	}
	return k
}

// printStored lists the stored files of a run.
func (p commands) printStored(c *cli.Context, left *storedFiles) error {
	k := storedRunOf(left.Record, left.cfg)
	stdout, stderr := int64(len(left.Stdout)), int64(len(left.Stderr))
	k.Stdout, k.Stderr = &stdout, &stderr
	if c.Bool("verify") {
		v, err := p.verifyStored(c, left, left.results.ArtifactDir(left.ID))
		if err != nil {
			return err
		}
		k.Verified = v
	}
	err := p.Print(c, k, k.writeText)
	switch {
	case err != nil || k.Verified == nil:
		return err
	case c.Bool("json"):
		return exit.UnlessOK(k.Verified.OK, nil)
	}
	return p.printVerified(c, *k.Verified)
}

func (k storedRun) writeText(w io.Writer) error {
	fmt.Fprintf(w, "run %s of namespace %s ended %s: %s, exit code %d\n", k.Run, terminal.Visible(k.Namespace),
		k.Time.Local().Format(time.DateTime), terminal.Visible(k.Ended), k.ExitCode)
	fmt.Fprintf(w, "kept until %s, if there is room\n\n", k.Until.Local().Format(time.DateTime))
	t := terminal.NewTable(w, terminal.Column{Name: "NAME", Whole: true}, terminal.Column{Name: "BYTES", Right: true},
		terminal.Column{Name: "TYPE"}, terminal.Column{Name: "SHA256", Spare: true})
	for _, f := range k.Artifacts {
		about := f.MIME
		if f.Withheld != "" {
			about = "withheld: " + f.Withheld
		}
		t.Row(f.Name, fmt.Sprint(f.Size), about, f.SHA256)
	}
	t.Row("stdout", fmt.Sprint(*k.Stdout), "output")
	t.Row("stderr", fmt.Sprint(*k.Stderr), "output")
	t.Row(signer.ReceiptName, "", "receipt, from the audit log")
	return t.Close()
}

// notStoredError returns an error that explains, as far as the log knows, why no files of a run are stored.
func (p commands) notStoredError(c *cli.Context, cfg config.Config, id string) error {
	if _, err := ulid.ParseStrict(id); err != nil {
		return exit.Usage("sandboxmcp artifacts lists the runs with stored files", "%q is not a run id (26 characters)", terminal.Visible(id))
	}
	ran := false
	err := wiring.WithLog(c, func(ctx context.Context, log *audit.Log) error {
		for _, err := range log.Rows(ctx, audit.Filter{Run: id, Limit: 1}) {
			ran = err == nil
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	limits := fmt.Sprintf("servers keep results for %s, and %d MB of them; a short one without files only until they end",
		terminal.Count(cfg.Keep.Hours, "hour"), cfg.Keep.MaxMB)
	if !ran {
		return exit.Fail("sandboxmcp artifacts lists runs with stored files, sandboxmcp audit all runs",
			"run %s was not found, or belongs to another user; %s", terminal.Visible(id), limits)
	}
	return exit.Fail("sandboxmcp audit show "+id+" shows its record; files of sandboxmcp run are in its --artifacts directory",
		"nothing is kept of run %s any more; %s", terminal.Visible(id), limits)
}

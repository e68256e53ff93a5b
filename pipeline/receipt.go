package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"

	"github.com/sandboxmcp/sandboxmcp/signer"
)

// MaxPackages bounds the installed packages that a row or a receipt names.
const MaxPackages = 1000

// SignOutcome signs the receipt of the run, and adds the row of the run's end with it, which finishAction writes to the
// log. inputs are the files that we wrote into the workspace, the script included.
func (r *Run) SignOutcome(ctx context.Context, out *ProgramEnd, inputs map[string]string) error {
	ctx, cancel := WithFinishTimeout(ctx)
	defer cancel()
	if r.Pipeline.Config.Keys != nil {
		key, err := r.Pipeline.Config.Keys.Current(ctx)
		if err != nil {
			return err
		}
		if r.Envelope, err = r.newReceipt(out, inputs).Sign(key); err != nil {
			return err
		}
		if r.Outcome.Receipt, err = json.Marshal(r.Envelope); err != nil {
			return err
		}
	}
	r.AddRunRow(endRowKind(r.Outcome.Ended), r.endFacts(inputs))
	r.entries[len(r.entries)-1].Receipt = r.Outcome.Receipt
	return nil
}

// newReceipt returns the receipt of the returned result: redacted output, cut unless the caller got all of it. out is
// nil if no program ran in a sandbox of the run.
func (r *Run) newReceipt(out *ProgramEnd, inputs map[string]string) signer.Receipt {
	res := &r.Outcome
	x := signer.Receipt{
		Run: res.ID, Namespace: res.Namespace, Session: res.Session, Language: res.Language, Name: res.Name,
		CodeSHA256: r.Code, PolicySHA256: r.Pipeline.policy,
		Backend: res.Backend, Profile: res.Profile, Layers: res.LayersInForce(), MissingLayers: res.MissingLayers(),
		End:   res.End,
		Began: r.Began, Finished: time.Now(),
		Output: signer.Output{
			StdoutSHA256: Hash([]byte(res.Stdout)), StdoutBytes: int64(len(res.Stdout)), StdoutCut: res.StdoutCut,
			StderrSHA256: Hash([]byte(res.Stderr)), StderrBytes: int64(len(res.Stderr)), StderrCut: res.StderrCut,
		},
		Artifacts: res.Artifacts, Changes: r.Changes, Version: r.Pipeline.Config.Version,
	}
	if out != nil {
		if sum, n, ok := out.Stdout.DeliveredHash(); ok {
			x.StdoutSHA256, x.StdoutBytes, x.StdoutCut = sum, n, 0
		}
		if sum, n, ok := out.Stderr.DeliveredHash(); ok {
			x.StderrSHA256, x.StderrBytes, x.StderrCut = sum, n, 0
		}
	}
	if displays := res.displaysJSON(); displays != nil {
		x.ValueSHA256 = Hash(displays)
	}
	for _, l := range r.Leases {
		x.Secrets = append(x.Secrets, l.Names()...)
	}
	if len(inputs) > r.ownFiles { // the script is one of them
		x.InputsSHA256 = hashInputs(inputs)
	}
	for i, d := range res.Egress {
		if i == maxItems {
			x.EgressUnlisted = len(res.Egress) - i
			break
		}
		x.Egress = append(x.Egress, signer.Contact{
			Name: d.Name, Port: d.Port, Allowed: d.Allowed, Reason: d.Reason, Count: d.Count, Sent: d.Sent, Received: d.Received,
		})
	}
	for i, pkg := range res.Packages {
		if i == MaxPackages {
			x.Packages = append(x.Packages, fmt.Sprintf("and %d more", len(res.Packages)-i))
			break
		}
		x.Packages = append(x.Packages, fmt.Sprintf("%s %s %s", pkg.Name, pkg.Version, pkg.Hash))
	}
	return x
}

// TooLargeError returns the error for a file of more than limit bytes.
func TooLargeError(name string, limit int64) error {
	return Refuse(StageValidate, fmt.Sprintf("%q has more than %d bytes, the maximum for a copy", name, limit), "copy a smaller file")
}

// ReadArtifact reads an artifact of an earlier run of the namespace.
func (r *Run) ReadArtifact(run, name string, limit int64) ([]byte, error) {
	if r.Pipeline.Config.Results == nil {
		return nil, Refuse(StageValidate, "this process does not store results of runs", "use a server: sandboxmcp serve")
	}
	k, err := r.Pipeline.Config.Results.Get(run)
	if err == nil && k.Namespace != r.Outcome.Namespace {
		err = fmt.Errorf("run %.40q: %w", run, results.ErrUnknown)
	}
	var whole []byte
	for err == nil {
		part, failed := r.Pipeline.Config.Results.Read(k.ID, "files/"+name, int64(len(whole)), 0)
		if failed == nil && part.Size > limit {
			failed = TooLargeError(name, limit)
		}
		if whole, err = append(whole, part.Data...), failed; err == nil && (len(part.Data) == 0 || int64(len(whole)) >= part.Size) {
			return whole, nil
		}
	}
	return nil, err
}

// StoreFile saves content, of at most most bytes, in the result store, and closes it.
func (r *Run) StoreFile(ctx context.Context, name string, most int64, content io.ReadCloser) error {
	var dir *os.Root
	defer func() {
		if dir != nil {
			dir.Close()
		}
	}()
	m, err := signer.Collect(ctx, func(_ context.Context, f func(signer.File) error) (int, error) {
		return 0, f(signer.File{Name: name, Mode: 0o644, Open: func() (io.ReadCloser, error) { return content, nil }})
	}, signer.Options{Dir: func() (_ *os.Root, err error) {
		dir, err = r.Pipeline.Config.Results.OpenArtifacts(r.Outcome.ID)
		return dir, err
	}, EmptyDir: true, MaxCount: 1, MaxBytes: most, Redact: r.Clean})
	if err == nil && len(m.Artifacts) == 0 {
		err = Refuse(StageBackend, fmt.Sprintf("%.80q can't be stored: %s", r.Clean(name), m.Why), "copy a smaller file")
	}
	if err != nil {
		return err
	}
	r.Outcome.Manifest = m
	return r.Pipeline.Config.Results.Save(ctx, results.Record{ID: r.Outcome.ID, Namespace: r.Outcome.Namespace, Session: r.Outcome.Session,
		Name: r.Outcome.Name, End: backends.End{Ended: backends.EndedOK}, Time: time.Now().UTC(), Result: []byte("{}"),
		Artifacts: r.Outcome.Artifacts})
}

// StoreResult stores the result for later requests. If that fails, the result has a warning.
func (r *Run) StoreResult(ctx context.Context) {
	if r.Pipeline.Config.Results == nil {
		return
	}
	res := r.Outcome
	res.Stdout, res.Stderr, res.Receipt = "", "", nil // the log has the receipt
	text, err := res.MarshalJSON()                    // json.Marshal would validate the returned JSON once more
	if err == nil {
		k := results.Record{
			ID: res.ID, Namespace: res.Namespace, Session: res.Session, Language: res.Language, Name: res.Name,
			End: res.End, Time: time.Now().UTC(), Result: text,
			Stdout: r.Outcome.Stdout, Stderr: r.Outcome.Stderr, StdoutCut: res.StdoutCut, StderrCut: res.StderrCut, Artifacts: res.Artifacts,
		}
		err = r.Pipeline.Config.Results.Save(ctx, k)
	}
	if err != nil {
		r.Warn(r.Clean(HidePaths("the result can't be stored: "+err.Error(), err)))
	}
}

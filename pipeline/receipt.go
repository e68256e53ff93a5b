package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sandboxmcp/sandboxmcp/signer"
)

// maxPackages is how many of the packages that were installed a row or a receipt names.
const maxPackages = 1000

// signOutcome signs the receipt of the run, and records its end with it. inputs are the files that we put into
// the workspace, the script among them.
func (r *run) signOutcome(ctx context.Context, out *programEnd, inputs map[string]string) error {
	ctx, cancel := outlast(ctx)
	defer cancel()
	if r.p.cfg.Keys != nil {
		key, err := r.p.cfg.Keys.Current(ctx)
		if err != nil {
			return err
		}
		if r.envelope, err = r.receipt(out, inputs).Sign(key); err != nil {
			return err
		}
		if r.res.Receipt, err = json.Marshal(r.envelope); err != nil {
			return err
		}
	}
	r.noteRun(endKind(r.res.Ended), r.endFacts(inputs))
	r.entries[len(r.entries)-1].Receipt = r.res.Receipt
	return nil
}

// receipt returns the receipt of what is handed out: output as it was redacted, and cut unless its caller got all. out is nil
// where nothing ran in a sandbox of the run.
func (r *run) receipt(out *programEnd, inputs map[string]string) signer.Receipt {
	res := &r.res
	x := signer.Receipt{
		Run: res.ID, Namespace: res.Namespace, Session: res.Session, Language: res.Language, Name: res.Name,
		CodeSHA256: r.code, PolicySHA256: r.p.policy,
		Backend: res.Backend, Profile: res.Profile, Layers: res.LayersInForce(), MissingLayers: res.missing(),
		End:   res.End,
		Began: r.began, Finished: time.Now(),
		Output: signer.Output{
			StdoutSHA256: hash([]byte(res.Stdout)), StdoutBytes: int64(len(res.Stdout)), StdoutCut: res.StdoutCut,
			StderrSHA256: hash([]byte(res.Stderr)), StderrBytes: int64(len(res.Stderr)), StderrCut: res.StderrCut,
		},
		Artifacts: res.Artifacts, Version: r.p.cfg.Version,
	}
	if out != nil {
		if sum, n, ok := out.stdout.handed(); ok {
			x.StdoutSHA256, x.StdoutBytes, x.StdoutCut = sum, n, 0
		}
		if sum, n, ok := out.stderr.handed(); ok {
			x.StderrSHA256, x.StderrBytes, x.StderrCut = sum, n, 0
		}
	}
	if displays := res.displaysJSON(); displays != nil {
		x.ValueSHA256 = hash(displays)
	}
	for _, l := range r.leases {
		x.Secrets = append(x.Secrets, l.Names()...)
	}
	if len(inputs) > r.own { // a script is among them
		x.InputsSHA256 = hashNames(inputs)
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
		if i == maxPackages {
			x.Packages = append(x.Packages, fmt.Sprintf("and %d more", len(res.Packages)-i))
			break
		}
		x.Packages = append(x.Packages, fmt.Sprintf("%s %s %s", pkg.Name, pkg.Version, pkg.Hash))
	}
	return x
}

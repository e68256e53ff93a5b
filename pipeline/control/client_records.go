package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// Running lists what is under way in a namespace, or in all for "".
func (c *Client) Running(ctx context.Context, namespace string) ([]pipeline.Running, error) {
	return listRunning.Call(ctx, c.at, inNamespace{namespace})
}

// Watch calls f for what a run that is under way writes, shows and does, until it ends or f returns an error.
func (c *Client) Watch(ctx context.Context, run string, f func(Part) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, err := watchRun.Open(ctx, c.endless(), ofRun{run})
	if err != nil {
		return err
	}
	defer body.Close()
	for lines := json.NewDecoder(body); ; {
		var p Part
		err := lines.Decode(&p)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errors.Join(ErrCut, err)
		}
		if err := f(p); err != nil {
			return err
		}
	}
}

// RunningCode returns the code of a run that is under way.
func (c *Client) RunningCode(ctx context.Context, run string) (Code, error) {
	return showCode.Call(ctx, c.endless(), ofRun{run})
}

// Review finds what is dangerous in code.
func (c *Client) Review(ctx context.Context, language, code string) (Code, error) {
	return reviewCode.Call(ctx, c.endless(), codeIn{language, code})
}

// InterruptRun interrupts a run that is under way, or ends it at once.
func (c *Client) InterruptRun(ctx context.Context, run string, kill bool) error {
	_, err := interruptRun.Call(ctx, c.at, interruptIn{ofRun{run}, kill})
	return err
}

// Log returns rows of the audit log, the newest first.
func (c *Client) Log(ctx context.Context, q LogQuery) (Found, error) {
	if q.Limit == 0 {
		q.Limit = 100
	}
	return searchLog.Call(ctx, c.at, q)
}

// Story returns all that the log has about a run.
func (c *Client) Story(ctx context.Context, run string) (Story, error) {
	return getStory.Call(ctx, c.at, ofRun{run})
}

// Evidence returns a run's receipt, and the proof that it is in the log.
func (c *Client) Evidence(ctx context.Context, run string) (Evidence, error) {
	return getEvidence.Call(ctx, c.at, ofRun{run})
}

// Stored lists the runs that something is kept of; of one, if it is named.
func (c *Client) Stored(ctx context.Context, namespace, run string) ([]Stored, error) {
	return listStored.Call(ctx, c.at, storedIn{inNamespace{namespace}, run, 100})
}

// StoredPart returns a piece of what is kept of a run.
func (c *Client) StoredPart(ctx context.Context, run, name string, offset, length int64) (StoredPart, error) {
	return readStored.Call(ctx, c.at, partIn{ofRun{run}, name, offset, length})
}

// Policy returns the settings in force.
func (c *Client) Policy(ctx context.Context) ([]Setting, error) {
	return getPolicy.Call(ctx, c.at, nothing{})
}

// Secrets returns the names of a namespace's secrets.
func (c *Client) Secrets(ctx context.Context, namespace string) (Secrets, error) {
	return listSecrets.Call(ctx, c.at, secretsIn{namespace})
}

// Doctor returns what doctor says of the server's machine.
func (c *Client) Doctor(ctx context.Context) ([]Finding, error) {
	return runDoctor.Call(ctx, c.endless(), nothing{})
}

// Disk returns the space that the server's state has and takes.
func (c *Client) Disk(ctx context.Context) (Disk, error) { return getDisk.Call(ctx, c.at, nothing{}) }

// Figures sums up the last days of a namespace, or of all for "".
func (c *Client) Figures(ctx context.Context, namespace string, days int) (Figures, error) {
	return getFigures.Call(ctx, c.at, figuresIn{inNamespace{namespace}, days})
}

// Invite returns what lets a browser into the server's page, once; without an address it has none.
func (c *Client) Invite(ctx context.Context, namespaces []string) (Invitation, error) {
	return openPage.Call(ctx, c.at, invitationIn{namespaces})
}

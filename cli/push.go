package cli

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/witness"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

// pushAgain is how long a server waits until it tries a place again that failed, if no checkpoint is made before.
const pushAgain = time.Minute

// places are where checkpoints are taken: those of the command line or, where it names none, of the configuration.
func places(cfg config.Config, named ...string) (all []witness.Place, err error) {
	if len(named) == 0 {
		named = cfg.Audit.Push
	}
	for _, text := range named {
		p, err := witness.Parse(text)
		if err != nil {
			return nil, exit.Usage("sandboxmcp audit checkpoint --help", "audit.push: %v", err)
		}
		all = append(all, p)
	}
	return all, nil
}

// push takes the newest checkpoint to all places at once. It returns what witnesses signed, and what went wrong.
func push(ctx context.Context, cfg config.Config, log witness.Log, to []witness.Place) (signatures []byte, err error) {
	keys, err := keysOf(cfg)
	if err != nil {
		return nil, err
	}
	trust, err := keys.Trust()
	if err != nil {
		return nil, err
	}
	lines, errs := make([][]byte, len(to)), make([]error, len(to))
	var all sync.WaitGroup
	for i, p := range to {
		all.Go(func() { lines[i], errs[i] = p.Push(ctx, log, checkingKeys(trust)) })
	}
	all.Wait()
	for _, l := range lines {
		signatures = append(signatures, l...)
	}
	return signatures, errors.Join(errs...)
}

// pushNow does what audit checkpoint --push asks for.
func (p *program) pushNow(ctx context.Context, c *cli.Context, log *audit.Log) ([]byte, error) {
	if !c.Bool("push") {
		if c.IsSet("to") {
			return nil, exit.Usage("sandboxmcp audit checkpoint --push --to PLACE", "--to is for --push")
		}
		return nil, nil
	}
	cfg, err := load(c)
	if err != nil {
		return nil, err
	}
	to, err := places(cfg, c.StringSlice("to")...)
	if err != nil {
		return nil, err
	}
	if len(to) == 0 {
		return nil, exit.Usage("sandboxmcp audit checkpoint --push --to PLACE", "no place is set to push to: name one with --to, or in audit.push")
	}
	signatures, err := push(ctx, cfg, log, to)
	if err != nil {
		return signatures, exit.Fail("sandboxmcp audit verify, and keep a copy of the log as it is now if it is not the place's fault", "%v", err)
	}
	for _, place := range to {
		p.Say("pushed to %s", terminal.Visible(place.Name))
	}
	return signatures, nil
}

// comparePushed adds what places keep to what a log is compared with. Of a witness, that is known by a push, which finish does.
func comparePushed(ctx context.Context, cfg config.Config, o *audit.VerifyOptions) (finish func(*audit.Log) error, err error) {
	all, err := places(cfg)
	if err != nil {
		return nil, err
	}
	var ask []witness.Place
	var errs []error
	for _, p := range all {
		note, ok, err := p.Stored(ctx)
		switch {
		case err != nil:
			errs = append(errs, err)
		case ok:
			o.Checkpoints, o.Names = append(o.Checkpoints, note), append(o.Names, "the checkpoint that was pushed to "+p.Name)
		default:
			ask = append(ask, p)
		}
	}
	return func(log *audit.Log) error {
		if len(ask) > 0 {
			_, err := push(ctx, cfg, log, ask)
			errs = append(errs, err)
		}
		if err := errors.Join(errs...); err != nil {
			return exit.Fail("--no-push, to check the log without what was pushed", "the log is sound in itself, and is not known to be what was pushed: %v", err)
		}
		return nil
	}, nil
}

// pushing takes checkpoints of a server's log to its places as they are made. It ends with stop, which waits for what is under way;
// the last one is for pushLast.
func (p *parts) pushing(ctx context.Context, cfg config.Config, log *slog.Logger) (stop func()) {
	if len(p.places) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		lastError := ""
		for again := time.Duration(0); ; {
			select {
			case <-ctx.Done():
				return
			case <-p.signed:
			case <-after(again):
			}
			rows, err := p.log.opened(ctx)
			if err != nil {
				return // whoever wants to run something is told
			}
			_, err = push(ctx, cfg, rows, p.places)
			if again = 0; err != nil && !errors.Is(err, audit.ErrUnsigned) && ctx.Err() == nil {
				if again = pushAgain; err.Error() != lastError {
					log.Error("the state of the log was not pushed", "error", err)
				}
				lastError = err.Error()
			} else if lastError != "" {
				log.Info("the state of the log was pushed again")
				lastError = ""
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// after is time.After, and never for 0.
func after(d time.Duration) <-chan time.Time {
	if d == 0 {
		return nil
	}
	return time.After(d)
}

// pushLast takes the checkpoint that was made as the log was closed to its places.
func pushLast(ctx context.Context, cfg config.Config, to []witness.Place) error {
	if len(to) == 0 {
		return nil
	}
	log, err := audit.Open(ctx, cfg.SQLitePath)
	if err != nil {
		return err
	}
	defer log.Close()
	if _, err = push(ctx, cfg, log, to); err != nil {
		return errors.New("the state of the log was not pushed: " + strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

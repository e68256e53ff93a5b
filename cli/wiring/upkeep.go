package wiring

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/witness"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
)

// pushAgain is the time until a server retries a failed push if no checkpoint follows before.
const pushAgain = time.Minute

// PushPlaces returns the places for pushed checkpoints: those in the command line or, if it names none, in the
// configuration.
func PushPlaces(cfg config.Config, named ...string) (all []witness.Place, err error) {
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

// Push pushes the newest checkpoint to all places at the same time. It returns the witnesses' signatures, and all
// errors.
func Push(ctx context.Context, cfg config.Config, log witness.Log, to []witness.Place) (signatures []byte, err error) {
	keys, err := Keys(cfg)
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
		all.Go(func() { lines[i], errs[i] = p.Push(ctx, log, CheckpointKeys(trust)) })
	}
	all.Wait()
	for _, l := range lines {
		signatures = append(signatures, l...)
	}
	return signatures, errors.Join(errs...)
}

// StartPushing pushes new checkpoints of a server's log to its places until stop, which waits for pushes under way; PushLast
// pushes the last one.
func (p *Parts) StartPushing(ctx context.Context, cfg config.Config, log *slog.Logger) (stop func()) {
	if len(p.Places) == 0 {
		return func() {}
	}
	return RunInBackground(ctx, func(ctx context.Context) {
		lastError := ""
		for again := time.Duration(0); ; {
			select {
			case <-ctx.Done():
				return
			case <-p.signed:
			case <-afterOrNever(again):
			}
			rows, err := p.Log.waitOpened(ctx)
			if err != nil {
				return // the next run reports the error
			}
			_, err = Push(ctx, cfg, rows, p.Places)
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
	})
}

// RunInBackground runs f until stop, which ends its context and waits for it.
func RunInBackground(ctx context.Context, f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// afterOrNever is time.After, but never fires for 0.
func afterOrNever(d time.Duration) <-chan time.Time {
	if d == 0 {
		return nil
	}
	return time.After(d)
}

// PushLast pushes the checkpoint that was made when the log was closed.
func PushLast(ctx context.Context, cfg config.Config, to []witness.Place) error {
	if len(to) == 0 {
		return nil
	}
	log, err := audit.Open(ctx, cfg.SQLitePath)
	if err != nil {
		return err
	}
	defer log.Close()
	if _, err = Push(ctx, cfg, log, to); err != nil {
		return errors.New("the state of the log was not pushed: " + strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// rotateEvery is the interval at which a server checks the age of the log's file.
const rotateEvery = time.Hour

// StartRotating rotates the log's file after some days, and deletes old closed files: now, and each hour until stop, which
// waits for work under way. Zero days mean never.
func (p *Parts) StartRotating(ctx context.Context, cfg config.Audit, log *slog.Logger) (stop func()) {
	return RunInBackground(ctx, func(ctx context.Context) {
		for cfg.RotateDays > 0 || cfg.KeepDays > 0 {
			if err := p.rotate(ctx, cfg, time.Now(), log); err != nil && ctx.Err() == nil {
				log.Error("the log could not be rotated", "error", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(rotateEvery):
			}
		}
	})
}

func (p *Parts) rotate(ctx context.Context, cfg config.Audit, now time.Time, log *slog.Logger) error {
	rows, err := p.Log.waitOpened(ctx)
	if err != nil {
		return nil // the next run reports the error
	}
	oldest, err := rows.OldestTime(ctx)
	if err == nil && cfg.RotateDays > 0 && !oldest.IsZero() && oldest.Before(now.AddDate(0, 0, -cfg.RotateDays)) {
		var closed audit.File
		if closed, err = rows.Rotate(ctx); err == nil && closed.Last > 0 {
			log.Info("a file of the log was closed", "file", closed.Path, "from", closed.First, "to", closed.Last)
		}
	}
	if err != nil || cfg.KeepDays == 0 {
		return err
	}
	deleted, err := rows.Prune(ctx, now.AddDate(0, 0, -cfg.KeepDays))
	for _, f := range deleted {
		log.Info("a file of the log was deleted", "file", f.Path, "from", f.First, "to", f.Last)
	}
	return err
}

package run

import (
	"context"
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// sign is the stage of artifacts: it lists and hashes the program's files, and copies them to the artifact directory.
// If artifacts can't be read or saved, the run still counts and the result has the error. SignOutcome signs the
// receipt, which has the hashes, with the row of the run's end; the files get their names when that row is in the
// log.
func (e *execution) sign(ctx context.Context) {
	defer e.TimeStage(&e.Outcome.Timings.Sign)()
	ctx, cancel := pipeline.WithFinishTimeout(ctx)
	defer cancel()
	src := e.artifactSource()
	if e.guard != nil {
		src = e.changedFiles()
	}
	if e.saves != nil {
		e.Pipeline.Journal.AddArtifacts(e.Outcome.ID, e.Outcome.Namespace, e.saves.Path)
	}
	m, staged, err := signer.Stage(ctx, src, signer.Options{
		Dir:            e.artifactDir(),
		EmptyDir:       e.saves == nil,
		ID:             e.Outcome.ID,
		MaxCount:       e.Pipeline.Config.Artifacts.MaxCount,
		MaxBytes:       e.Pipeline.Config.Artifacts.MaxBytes,
		ContainsSecret: e.SecretScanner(),
		Unchanged:      e.inputs,
		Redact:         e.Clean,
	})
	e.staged = staged
	e.Outcome.Manifest = m
	if err != nil {
		e.Outcome.ArtifactsFailed = err.Error()
	}
	e.proposeChanges(ctx)
	if e.tree != nil {
		for _, name := range e.tree.changedTraps() {
			e.Warn(fmt.Sprintf("the program changed %s, which tools on the host execute or read as configuration", name))
		}
	}
}

// proposeChanges stores the changes of the run to its workspace. Those of a session are proposed at its end, unless
// they are applied without a question.
func (e *execution) proposeChanges(ctx context.Context) {
	view := workspace.View{Dir: e.request.Workspace.Host, Began: e.since, Files: e.sandbox.Files(), Policy: e.project.Changes}
	if e.guard != nil {
		view = e.guard.View()
	}
	applies := view.Policy == workspace.AutoApply
	if e.guard != nil && !applies || e.guard == nil && !e.request.Workspace.Propose {
		return
	}
	if err := workspace.Propose(ctx, e.Run, view); err != nil {
		e.Outcome.ChangesFailed = err.Error()
	} else if applies && e.Outcome.Ended == backends.EndedOK {
		workspace.ApplyNow(ctx, e.Run)
	}
}

// takeDisplays adds the displays of the program to the result. It ignores a file that can't be read.
func takeDisplays(r *pipeline.Run, file backends.File) error {
	f, err := file.Open()
	if err != nil {
		return nil
	}
	defer f.Close()
	r.Outcome.Value = kernel.ReadDisplays(f, 2*MaxDisplays, display(r, func(kernel.Bundle) {}))
	return nil
}

// artifactSource lists the files that may be artifacts: all files of our own workspace, the changed files of a
// writable host workspace, and none of a read-only one. Those of proposed changes are artifacts on demand: the change
// set has them already.
func (e *execution) artifactSource() signer.Source {
	switch {
	case e.tree != nil:
		return e.tree.changed
	case e.request.Workspace.Propose && e.saves != nil:
		return e.proposedFiles
	case e.request.Workspace.Host != "":
		return func(context.Context, func(signer.File) error) (int, error) { return 0, nil }
	}
	return func(ctx context.Context, f func(signer.File) error) (int, error) {
		return e.sandbox.Files().Each(ctx, func(file backends.File) error {
			switch {
			case e.displayFile == "":
			case file.Name == e.displayFile:
				return takeDisplays(e.Run, file)
			case file.Name == e.program.Name && file.Size == int64(len(kernel.ScriptDriver(e.displayFile))):
				return nil // the run ended before the driver moved the program there
			}
			return f(signer.File{Name: file.Name, Size: file.Size, Mode: file.Mode, Open: file.Open})
		})
	}
}

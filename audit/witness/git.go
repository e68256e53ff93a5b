package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// gitStore stores the checkpoint in the file "checkpoint" of a branch, one commit for each. Pushes are never forced, so
// the history stays.
type gitStore struct{ remote, branch string }

// defaultBranch is the branch of checkpoints if none is named.
const defaultBranch = "checkpoints"

func newGit(remote, branch string) (gitStore, error) {
	if branch == "" {
		branch = defaultBranch
	}
	if remote == "" || strings.HasPrefix(remote, "-") || strings.HasPrefix(branch, "-") || strings.ContainsAny(branch, " ~^:?*[\\") {
		return gitStore{}, errors.New("git:REMOTE#BRANCH needs a remote as git takes it, and a branch")
	}
	return gitStore{remote, "refs/heads/" + branch}, nil
}

// maxGit bounds git's output, in bytes.
const maxGit = 64 << 10

// runGit runs git in a temporary repository, without GIT_DIR and the like from the environment; the user's settings
// apply to the remote.
func (g gitStore) runGit(ctx context.Context, dir, in string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "-c", "user.name=sandboxmcp", "-c", "user.email=sandboxmcp@localhost",
		"-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null"}, args...)...)
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if name != "GIT_DIR" && name != "GIT_WORK_TREE" && name != "GIT_INDEX_FILE" && name != "GIT_OBJECT_DIRECTORY" && name != "GIT_NAMESPACE" {
			c.Env = append(c.Env, kv)
		}
	}
	c.Env = append(c.Env, "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=file:git:http:https:ssh", "LC_ALL=C")
	c.Stdin, c.WaitDelay = strings.NewReader(in), time.Second
	var out, why cappedBuffer
	c.Stdout, c.Stderr = &out, &why
	if err := c.Run(); err != nil {
		text := strings.TrimSpace(why.String())
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, text[strings.LastIndexByte(text, '\n')+1:])
	}
	return strings.TrimRight(out.String(), "\n"), nil
}

// cappedBuffer keeps the first maxGit bytes.
type cappedBuffer struct{ bytes.Buffer }

func (c *cappedBuffer) Write(p []byte) (int, error) {
	c.Buffer.Write(p[:min(len(p), maxGit-c.Len())])
	return len(p), nil
}

// inRepository calls f with a temporary repository that has the branch, if the remote has it.
func (g gitStore) inRepository(ctx context.Context, f func(dir string, there bool) error) error {
	dir, err := os.MkdirTemp("", "sandboxmcp-push-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := g.runGit(ctx, dir, "", "init", "-q", "--bare"); err != nil {
		return err
	}
	has, err := g.runGit(ctx, dir, "", "ls-remote", "--", g.remote, g.branch)
	if err == nil && has != "" {
		_, err = g.runGit(ctx, dir, "", "fetch", "-q", "--no-tags", "--depth=1", "--", g.remote, g.branch+":refs/heads/kept")
	}
	if err != nil {
		return err
	}
	return f(dir, has != "")
}

func (g gitStore) read(ctx context.Context) (note []byte, err error) {
	err = g.inRepository(ctx, func(dir string, there bool) error {
		if !there {
			return nil
		}
		text, err := g.runGit(ctx, dir, "", "cat-file", "blob", "refs/heads/kept:checkpoint")
		note = []byte(text + "\n")
		return err
	})
	return note, err
}

func (g gitStore) write(ctx context.Context, note, old []byte, size int64) error {
	return g.inRepository(ctx, func(dir string, there bool) error {
		if there != (old != nil) {
			return errors.New("the branch was changed meanwhile")
		}
		blob, err := g.runGit(ctx, dir, string(note), "hash-object", "-w", "--stdin")
		if err != nil {
			return err
		}
		tree, err := g.runGit(ctx, dir, "100644 blob "+blob+"\tcheckpoint\n", "mktree")
		if err != nil {
			return err
		}
		args := []string{"commit-tree", tree, "-m", fmt.Sprintf("%d rows", size)}
		if there {
			args = append(args, "-p", "refs/heads/kept")
		}
		commit, err := g.runGit(ctx, dir, "", args...)
		if err == nil {
			_, err = g.runGit(ctx, dir, "", "push", "-q", "--", g.remote, commit+":"+g.branch)
		}
		return err
	})
}

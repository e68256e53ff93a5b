package container

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// never is the policy that fetches no image.
const never = "never"

// image finds the image of a language. An image that the engine does not have is fetched if policy allows that.
func (b *Backend) image(ctx context.Context, s *engineState, language, policy string) (Image, error) {
	reference := b.config.Images[language]
	if reference == "" {
		return Image{}, backends.Refuse(fmt.Sprintf("there is no image for language %q", language), "name one under ", remedy.Setting.With("images"))
	}
	image, err := b.engine.Image(ctx, reference)
	if errors.Is(err, ErrNoImage) && policy != never {
		if err := b.pull(ctx, reference); err != nil {
			if ctx.Err() != nil {
				return Image{}, context.Cause(ctx)
			}
			return Image{}, b.noImage(language, "and could not be fetched: "+err.Error())
		}
		image, err = b.engine.Image(ctx, reference)
	}
	switch {
	case errors.Is(err, ErrNoImage) && b.config.Pull == never:
		return Image{}, b.noImage(language, "and policy has it not be fetched by itself")
	case errors.Is(err, ErrNoImage):
		return Image{}, b.noImage(language, "which the first run that needs it fetches")
	case err != nil:
		return Image{}, fmt.Errorf("look for image %s with %s: %w", reference, b.Name(), err)
	case image.Arch != "" && s.Arch != "" && image.Arch != s.Arch:
		return Image{}, backends.Refuse(fmt.Sprintf("image %s is for %s, and %s runs on %s", reference, image.Arch, b.Name(), s.Arch),
			"name another one under ", remedy.Setting.With("images."+language))
	}
	return image, nil
}

func (b *Backend) noImage(language, why string) error {
	return backends.Refuse(fmt.Sprintf("%s does not have image %s, %s", b.Name(), b.config.Images[language], why),
		remedy.Command.With(fmt.Sprintf("sandboxmcp image pull --backend %s %s, or: sandboxmcp image build --backend %[1]s %[2]s", b.Name(), language)))
}

// title names an image in results: the reference that was asked for, and the digest or id behind it.
func title(reference string, image Image) string {
	if _, digest, ok := strings.Cut(image.Digest, "@"); ok {
		return reference + "@" + digest
	}
	return reference + "@" + image.ID
}

// pulls are the fetches under way, each reference at most once.
type pulls struct {
	mu       sync.Mutex
	of       map[string]*pull
	speaking sync.Mutex // Config.Progress is called by one of them at a time
}

type pull struct {
	waiting int // callers that wait for it
	cancel  context.CancelFunc
	done    chan struct{}
	err     error
}

// pull fetches an image, or joins the fetch under way, which continues as long as a caller waits for it.
func (b *Backend) pull(ctx context.Context, reference string) error {
	b.pulls.mu.Lock()
	p := b.pulls.of[reference]
	if p == nil {
		done, err := b.use()
		if err != nil {
			b.pulls.mu.Unlock()
			return err
		}
		p = b.startPull(reference, done)
	}
	p.waiting++
	b.pulls.mu.Unlock()
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
	}
	b.pulls.mu.Lock()
	defer b.pulls.mu.Unlock()
	if p.waiting--; p.waiting == 0 {
		p.cancel()
		if b.pulls.of[reference] == p { // nobody may join what ends
			delete(b.pulls.of, reference)
		}
	}
	return context.Cause(ctx)
}

// startPull begins a fetch; pulls.mu is held.
func (b *Backend) startPull(reference string, done func()) *pull {
	ctx, cancel := context.WithCancel(b.ctx)
	p := &pull{cancel: cancel, done: make(chan struct{})}
	b.pulls.of[reference] = p
	go func() {
		defer done()
		defer cancel()
		p.err = b.engine.Pull(ctx, reference, b.progress)
		b.pulls.mu.Lock()
		if b.pulls.of[reference] == p {
			delete(b.pulls.of, reference)
		}
		b.pulls.mu.Unlock()
		close(p.done)
	}()
	return p
}

// progress passes on a line of progress.
func (b *Backend) progress(line string) {
	if b.config.Progress == nil {
		return
	}
	b.pulls.speaking.Lock()
	defer b.pulls.speaking.Unlock()
	b.config.Progress(line)
}

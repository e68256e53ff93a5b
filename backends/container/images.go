package container

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// never is the policy that pulls no image.
const never = "never"

// image finds the image of a language. A missing image is pulled if policy permits.
func (b *Backend) image(ctx context.Context, s *engineState, language, policy string) (Image, error) {
	reference := b.config.Images[language]
	if reference == "" {
		return Image{}, backends.Refuse(fmt.Sprintf("there is no image for language %q", language), "name one under ",
			remedy.Setting.With("images"))
	}
	image, err := b.engine.Image(ctx, reference)
	if errors.Is(err, ErrNoImage) && policy != never {
		if err := b.fetch(ctx, reference); err != nil {
			if ctx.Err() != nil {
				return Image{}, context.Cause(ctx)
			}
			return Image{}, b.noImage(language, "and pulling it failed: "+err.Error())
		}
		image, err = b.engine.Image(ctx, reference)
	}
	switch {
	case errors.Is(err, ErrNoImage) && b.config.Pull == never:
		return Image{}, b.noImage(language, "and images are not pulled automatically")
	case errors.Is(err, ErrNoImage):
		return Image{}, b.noImage(language, "which the first run will pull")
	case err != nil:
		return Image{}, fmt.Errorf("look up image %s with %s: %w", reference, b.Name(), err)
	case image.Arch != "" && s.Arch != "" && image.Arch != s.Arch:
		return Image{}, backends.Refuse(fmt.Sprintf("image %s is for %s, and %s runs on %s", reference, image.Arch, b.Name(), s.Arch),
			"name another one under ", remedy.Setting.With("images."+language))
	}
	return image, nil
}

func (b *Backend) noImage(language, why string) error {
	return backends.Refuse(fmt.Sprintf("%s does not have image %s, %s", b.Name(), b.config.Images[language], why),
		remedy.Command.With(fmt.Sprintf("sandboxmcp image pull --backend %s %s, or: sandboxmcp image build --backend %[1]s %[2]s", b.Name(),
			language)))
}

// imageTitle names an image in results: the configured reference, and its digest or id.
func imageTitle(reference string, image Image) string {
	if _, digest, ok := strings.Cut(image.Digest, "@"); ok {
		return reference + "@" + digest
	}
	if image.ID == reference { // the engine has no other name
		return reference
	}
	return reference + "@" + image.ID
}

// fetch pulls an image, one at a time: a caller that has waited for another pull may find the image there.
func (b *Backend) fetch(ctx context.Context, reference string) error {
	select {
	case b.pulling <- struct{}{}:
		defer func() { <-b.pulling }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if _, err := b.engine.Image(ctx, reference); !errors.Is(err, ErrNoImage) {
		return nil
	}
	return b.engine.Pull(ctx, reference, b.config.Progress)
}

package machine

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/image"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
)

// serverImage is the word for the server's own image.
const serverImage = "server"

// buildServer builds the server's image with an engine, or writes it to a file.
func (p commands) buildServer(c *cli.Context) error {
	if name := c.String("name"); name != "" {
		if err := config.CheckImage(name); err != nil {
			return exit.Usage("--name registry.example.com/sandboxmcp:1", "%v", err)
		}
	}
	if c.IsSet("output") {
		if c.IsSet("backend") {
			return exit.Usage("--output server.tar", "an archive needs no engine: leave one of --backend and --output out")
		}
		return p.saveServer(c)
	}
	return withEngine(c, func(ctx context.Context, engine container.Engine, cfg config.Config) error {
		s, err := serverParts(cfg)
		if err != nil {
			return err
		}
		info, err := engine.Info(ctx)
		if err != nil {
			return err
		}
		if info.Arch != s.Arch {
			return exit.Fail("name a program for "+info.Arch+" in containers.binary", "%s is for %s, and %s runs on %s", s.Binary, s.Arch,
				engine.Name(), info.Arch)
		}
		name := c.String("name")
		if name == "" {
			name = image.Name(engine.Name(), serverImage)
		}
		archive, w := io.Pipe()
		go func() { w.CloseWithError(s.WriteContext(w)) }()
		defer archive.Close()
		if err := engine.Build(ctx, name, archive, map[string]string{container.LabelImage: serverImage}, p.printProgress); err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.Out, "%s has built %s\npush it to the cluster's registry: %[1]s push %[2]s\n", engine.Name(), name)
		return err
	})
}

// serverParts returns the parts of the server's image.
func serverParts(cfg config.Config) (s image.Server, err error) {
	if s.Binary, s.Arch, err = container.StaticProgram(cfg.Containers.Binary); err != nil {
		return s, err
	}
	if s.Certificates = backends.Authorities(); s.Certificates == nil {
		return s, exit.Fail("apt-get install ca-certificates", "this machine has no file of certificate authorities")
	}
	return s, nil
}

// saveServer writes the image to a file, completely or not at all.
func (p commands) saveServer(c *cli.Context) (err error) {
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	s, err := serverParts(cfg)
	if err != nil {
		return err
	}
	file, name := c.String("output"), c.String("name")
	if name == "" {
		name = image.Name("", serverImage)
	}
	dir, base, err := hostfs.OpenParent(file)
	if err != nil {
		return command.PathError("name a file in a directory that can be written", "--output", err)
	}
	defer dir.Close()
	size := int64(0)
	if err := hostfs.Replace(dir, base, 0o644, func(f *os.File) error {
		err := s.Save(f, name)
		size, _ = f.Seek(0, io.SeekCurrent)
		return cmp.Or(err, f.Sync())
	}); err != nil {
		return fmt.Errorf("write the image to %s: %w", terminal.Visible(file), err)
	}
	_, err = fmt.Fprintf(p.Out, "%s has %s for %s, %s\n", terminal.Visible(file), name, s.Arch, formatMB(size))
	return err
}

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/status"
)

// build describes the source of this binary.
type build struct {
	Module   string    `json:"module"`
	Version  string    `json:"version"`
	Revision string    `json:"revision"` // "" when built outside a checkout
	Modified bool      `json:"modified"` // the checkout had uncommitted changes
	Time     time.Time `json:"-"`        // of the commit
	Go       string    `json:"go"`
	Platform string    `json:"platform"` // GOOS/GOARCH
}

// buildInfo reads the binary itself, so that no build flag can be forgotten.
func buildInfo() build {
	b := build{Version: "(devel)", Time: commitTime(""), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Module = info.Main.Path
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = commitTime(s.Value)
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func versionCommand(p *program) *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print the version of this binary"}
	var asJSON bool
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return command(c, func(context.Context, []string) error {
		b := buildInfo()
		if asJSON {
			return json.NewEncoder(p.stdout).Encode(b)
		}
		_, err := io.WriteString(p.stdout, b.String())
		return err
	})
}

// String is the answer of the version command and of --version.
func (b build) String() string {
	revision := cmp.Or(b.Revision, "unknown")
	if b.Modified {
		revision += " (modified)"
	}
	return fmt.Sprintf("lca-stream %s\nmodule   %s\nrevision %s\ngo       %s %s\n", b.Version, b.Module, revision, b.Go, b.Platform)
}

// statusBuild returns what the status page shows of the build.
func statusBuild(b build) status.Build {
	return status.Build{Version: b.Version, Revision: b.Revision, GoVersion: b.Go}
}

package app

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// Build describes the source of this binary.
type Build struct {
	Module   string    `json:"module"`
	Version  string    `json:"version"`
	Revision string    `json:"revision"` // "" when built outside a checkout
	Modified bool      `json:"modified"` // the checkout had uncommitted changes
	Time     time.Time `json:"-"`        // of the commit
	Go       string    `json:"go"`
	Platform string    `json:"platform"` // GOOS/GOARCH
}

// String is the answer of the version command and of --version.
func (b Build) String() string {
	revision := cmp.Or(b.Revision, "unknown")
	if b.Modified {
		revision += " (modified)"
	}
	return fmt.Sprintf("lca-stream %s\nmodule   %s\nrevision %s\ngo       %s %s\n", b.Version, b.Module, revision, b.Go, b.Platform)
}

// BuildInfo reads the binary itself, so that no build flag can be forgotten.
func BuildInfo() Build {
	b := Build{Version: "(devel)", Time: commitTime(""), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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

// commitTime reads the time of the source from the binary, so that the same source gives the same pages.
func commitTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Unix(0, 0).UTC() // built outside a checkout
	}
	return t.UTC()
}

// Producer names the program that makes snapshots. It must not change between two runs of one binary, because the
// bytes of a snapshot depend only on data.
func Producer() string { return "lca-stream " + BuildInfo().Version }

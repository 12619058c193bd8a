package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
)

// A demo that is stopped before its end says that it has no result.
func TestDemoStoppedEarly(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	p, stdout, _ := inTest()
	var said bytes.Buffer
	p.Stderr = writerFunc(func(b []byte) (int, error) {
		if bytes.Contains(b, []byte("Streaming")) {
			stop()
		}
		return said.Write(b)
	})
	if code := execute(ctx, p, []string{"demo", "--rows", "1000", "--pace", "1h", "--http", ""}); code != app.ExitDone {
		t.Errorf("exit code %d:\n%s", code, &said)
	}
	if !strings.Contains(said.String(), "Stopped before all rows had come, so nothing was compared.") || stdout.Len() > 0 {
		t.Errorf("said\n%s\nand printed\n%s", &said, stdout)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

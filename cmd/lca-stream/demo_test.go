package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/demo/toy"
)

// The demo runs with configs/demo.yaml, except for the addresses.
func TestDemoConfigIsTheExample(t *testing.T) {
	want, err := config.Load(config.Input{File: filepath.Join("..", "..", "configs", "demo.yaml"), Getenv: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := toy.Open("five", 1)
	if err != nil {
		t.Fatal(err)
	}
	got := demoConfig(demoFlags{http: want.HTTP.Listen, data: "five"}, stream, want.Kafka.Brokers[0])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configs/demo.yaml is not what the demo runs with (-file +demo):\n%s", diff)
	}
}

// A demo that is stopped before its end says that it has no result.
func TestDemoStoppedEarly(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	p, stdout, _ := inTest()
	var said bytes.Buffer
	p.stderr = writerFunc(func(b []byte) (int, error) {
		if bytes.Contains(b, []byte("Streaming")) {
			stop()
		}
		return said.Write(b)
	})
	if code := execute(ctx, p, []string{"demo", "--rows", "1000", "--pace", "1h", "--http", ""}); code != exitDone {
		t.Errorf("exit code %d:\n%s", code, &said)
	}
	if !strings.Contains(said.String(), "Stopped before all rows had come, so nothing was compared.") || stdout.Len() > 0 {
		t.Errorf("said\n%s\nand printed\n%s", &said, stdout)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

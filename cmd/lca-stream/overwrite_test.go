package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOverwrite holds that a model takes the place of a model in any format, and sums that of sums; that nothing else is overwritten without --force;
// and that it is with it.
func TestOverwrite(t *testing.T) {
	dir := emFiles(t)
	replay := []string{"replay", "--algorithm", "lca-gauss", "--passes", "1", "--input", "a.arrow", "--set", "source.features=[a, b]", "-o"}
	mustRun[any](t, dir, "", append(replay, "m.arrows")...)
	mustRun[any](t, dir, "", "em", "expect", "--model", "m.arrows", "--input", "a.arrow", "-o", "a.sums")
	mustRun[any](t, dir, "", "replay", "--algorithm", "lca-local", "--input", "a.arrow", "--set", "source.features=[a, b]", "-o", "points.arrows")
	found := map[string]string{"points.arrows": "model", "m.arrows": "model", "a.sums": "sums", "a.arrow": "", "b.arrows": "", "empty": "both", "text.yaml": ""}
	for _, name := range []string{"m.npz", "m.onnx", "m.json", "m.safetensors"} {
		mustRun[any](t, dir, "", "snapshot", "export", "--file", "m.arrows", "-o", name)
		found[name] = "model"
	}
	for name, text := range map[string]string{"empty": "", "text.yaml": "kafka: {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range []struct {
		writes string
		args   []string
	}{
		{"model", replay},
		{"model", []string{"snapshot", "export", "--file", "m.arrows", "--format", "arrow", "-o"}},
		{"model", []string{"em", "maximize", "--model", "m.arrows", "--input", "a.sums", "-o"}},
		{"sums", []string{"em", "expect", "--model", "m.arrows", "--input", "b.arrows", "-o"}},
	} {
		for name, holds := range found {
			const copied = "copy"
			before, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, copied), before, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			args := append(slices.Clone(command.args), copied)
			_, fault := lcaStream(t, dir, "", args...)
			after, err := os.ReadFile(filepath.Join(dir, copied))
			if err != nil {
				t.Fatal(err)
			}
			allowed := holds == command.writes || holds == "both"
			if allowed != (fault == "") || !allowed && (!bytes.Equal(before, after) || !strings.Contains(fault, "exit status 2: lca-stream: "+copied+" exists already")) {
				t.Errorf("%v over %s: %q", command.args[:2], name, fault)
			}
			if !allowed {
				mustRun[any](t, dir, "", append(args, "--force")...)
			}
		}
	}
}

package main

import (
	"fmt"
	"os"

	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// readSnapshotFile reads a model.
func readSnapshotFile(path string) (*snapshot.Snapshot, error) {
	if isStdin(path) {
		return nil, usageError("a model is not read from standard input (%s), which is for rows: name its file, or a pipe as in <(command)", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	s, err := snapshot.ReadFile(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, unlike(path, models, err))
	}
	return s, nil
}

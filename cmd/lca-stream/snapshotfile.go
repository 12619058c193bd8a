package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// writeSnapshotFile writes beside the target first, so that a crash leaves the old file or the new.
func writeSnapshotFile(path string, s *snapshot.Snapshot) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".snapshot-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	err = errors.Join(snapshot.WriteFile(tmp, s), tmp.Chmod(0o644), tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

func readSnapshotFile(path string) (*snapshot.Snapshot, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	s, err := snapshot.ReadFile(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// writeSnapshotFile writes the format that this program reads everywhere.
func writeSnapshotFile(path string, s *snapshot.Snapshot) error {
	return exportSnapshotFile(path, s, snapshot.FormatArrow)
}

// exportSnapshotFile writes a snapshot in a format of its own or of other programs.
func exportSnapshotFile(path string, s *snapshot.Snapshot, f snapshot.Format) error {
	return writeWhole(path, func(w io.Writer) error { return snapshot.Export(w, s, f) })
}

// writeWhole writes to a temporary file next to the target, so that a crash leaves either the old file or the
// new one.
func writeWhole(path string, write func(io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".snapshot-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	err = errors.Join(write(tmp), tmp.Chmod(0o644), tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// readSnapshotFile reads any format that export writes.
func readSnapshotFile(path string) (*snapshot.Snapshot, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	s, err := snapshot.Import(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

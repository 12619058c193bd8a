package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// writeOutput writes to standard output where the path is "-", and otherwise a file. A regular file is written whole or not at all: to a temporary
// file next to it, so that a crash leaves either the old file or the new one. A symbolic link is followed, and what is no regular file, such as a
// pipe or a device, is written to as it is.
func (p *program) writeOutput(path string, write func(io.Writer) error) error {
	if path == "-" {
		return write(p.stdout)
	}
	if err := writeFile(path, write); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	mode := fs.FileMode(0o644)
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return withoutPath(err)
	case info.IsDir():
		return errors.New("it is a directory")
	case !info.Mode().IsRegular():
		return writeThrough(path, write)
	default:
		mode = info.Mode().Perm()
	}
	path = behind(path)
	tmp, err := os.CreateTemp(filepath.Dir(path), ".lca-stream-*")
	if err != nil {
		return withoutPath(err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	if err := errors.Join(write(tmp), tmp.Chmod(mode), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return withoutPath(os.Rename(tmp.Name(), path))
}

// behind returns the file that a symbolic link leads to, which need not be there yet.
func behind(path string) string {
	for range 40 { // as many as Linux follows
		if target, err := filepath.EvalSymlinks(path); err == nil {
			return target
		}
		target, err := os.Readlink(path)
		if err != nil {
			return path
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return path
}

// writeThrough writes to what is there.
func writeThrough(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return withoutPath(err)
	}
	return errors.Join(write(f), f.Close())
}

// withoutPath leaves out the path of an error, which is that of the temporary file or is said already.
func withoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		return link.Err
	}
	return err
}

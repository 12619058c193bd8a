package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
)

// writeOutput writes to standard output where the path is "-", and otherwise a file. A regular file is written whole or not at all: to a temporary
// file next to it, so that a crash leaves either the old file or the new one. A symbolic link is followed, and what is no regular file, such as a
// pipe or a device, is written to as it is.
func (p *program) writeOutput(path string, write func(io.Writer) error) error {
	if path == "-" {
		return write(terminal.Unwrap(p.stdout)) // a file, not text for a person
	}
	if err := writeFile(path, write); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// writeFile is writeOutput for a path that is no "-", with an error that names no file.
func writeFile(path string, write func(io.Writer) error) error {
	mode, exists := fs.FileMode(0o666), false
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return withoutPath(err)
	case info.IsDir():
		return errors.New("it is a directory")
	case !info.Mode().IsRegular():
		return writeThrough(path, write)
	default:
		mode, exists = info.Mode().Perm(), true
	}
	path = behind(path)
	// Not os.CreateTemp: the umask decides who may read a new file, from its first byte on.
	tmp, err := os.OpenFile(filepath.Join(filepath.Dir(path), ".lca-stream-"+rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return withoutPath(err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	if exists { // its own mode stays, whatever the umask
		err = tmp.Chmod(mode)
	}
	if err := errors.Join(err, write(tmp), tmp.Sync(), tmp.Close()); err != nil {
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

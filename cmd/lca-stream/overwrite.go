package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// content is what a command writes to its output. A step of EM is repeated over its own files, so a model takes the place of a model, and
// sums that of sums. Any other file may be all that there is of some rows, and is overwritten only with --force.
type content string

const (
	models content = "model"
	sums   content = "sums of em expect"
)

// metadataKeys lists the key by which the Arrow schema of a content is known. A model is also known by its other formats.
var metadataKeys = map[string]content{"lca.format": models, "lca.local_format": models, "lca.statistics_format": sums}

// outputFlags adds --output and --force.
func outputFlags(c *cobra.Command, output *string, force *bool, of content, usage string) {
	c.Flags().StringVarP(output, "output", "o", "", usage)
	c.Flags().BoolVar(force, "force", false, "overwrite the file of --output, though it holds no "+string(of))
}

// mayWrite refuses an output over a file that holds something else.
func mayWrite(path string, of content, force bool) error {
	if path == "" || path == "-" || force {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Size() == 0: // a pipe, a device, and what mktemp has made
		return nil
	}
	is, err := contentOf(path)
	if err != nil {
		return err
	}
	if is != of {
		return fmt.Errorf("%s exists already, and holds no %s: name another file, or overwrite it with --force", path, of)
	}
	return nil
}

// otherFormats are the endings of what is no Arrow stream, such as a command that writes nothing else could be asked for.
var otherFormats = []string{".csv", ".json", ".npz", ".onnx", ".parquet", ".safetensors"}

// mayWriteStream is mayWrite for a command whose only format is an Arrow stream, which under another format's name no program could read.
func mayWriteStream(path string, of content, force bool) error {
	ending := filepath.Ext(path)
	if !slices.Contains(otherFormats, strings.ToLower(ending)) {
		return mayWrite(path, of, force)
	}
	stream := strings.TrimSuffix(path, ending) + ".arrows"
	remedy := "name it " + stream
	if f, err := formatOf("", path); err == nil && of == models {
		remedy += fmt.Sprintf(", and make %s of it with `lca-stream snapshot export --file %s --format %s -o %s`", ending, stream, f, path)
	}
	return usageError("--output %s would hold an Arrow stream, because this command writes nothing else: %s", path, remedy)
}

// contentOf returns what a file holds, "" if it is neither a model nor sums.
func contentOf(path string) (content, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	if in, err := source.OpenPipe(path, f); err == nil {
		m := in.Schema().Metadata()
		for key, is := range metadataKeys {
			if m.FindKey(key) >= 0 {
				return is, nil
			}
		}
		return "", nil
	}
	head := make([]byte, 4096)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if snapshot.ExportedAs(head[:n]) != "" {
		return models, nil
	}
	return "", nil
}

// unlike says of a file that could not be read what it holds instead of what it should hold.
func unlike(path string, want content, fault error) error {
	info, err := os.Stat(path)
	switch {
	case err != nil || !info.Mode().IsRegular():
		return fault
	case info.Size() == 0:
		return errors.New("the file is empty")
	}
	switch is, err := contentOf(path); {
	case err != nil || is == want || is == "" && want == models: // the fault of what is no model says so
		return fault
	case is == "":
		return fmt.Errorf("it holds no %s: %w", want, fault)
	case is == models:
		return fmt.Errorf("it holds a model, and no %s", want)
	default:
		return fmt.Errorf("it holds the %s, and no %s", is, want)
	}
}

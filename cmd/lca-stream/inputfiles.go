package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lca-stream/lca-stream/sink/rowfile"
)

// rowInputs replaces patterns and directories among inputs of rows by the files that they stand for, in the order of their names.
func rowInputs(inputs []string) ([]string, error) {
	matched, err := matches(inputs)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, path := range matched {
		if info, err := os.Stat(path); err != nil || !info.IsDir() { // what is not there is said when it is opened
			files = append(files, path)
			continue
		}
		within, err := filesIn(path)
		if err != nil {
			return nil, err
		}
		files = append(files, within...)
	}
	return files, nil
}

// matches replaces patterns among inputs by what they match, in the order of the names. A file may have the name of a pattern. As in a shell, names
// that begin with a dot match only a pattern that does.
func matches(inputs []string) ([]string, error) {
	var all []string
	for _, input := range inputs {
		if _, err := os.Lstat(input); err == nil || !strings.ContainsAny(input, "*?[") {
			all = append(all, input)
			continue
		}
		found, err := filepath.Glob(input)
		if err != nil {
			return nil, usageError("--input %s: %v", input, err)
		}
		if !strings.HasPrefix(filepath.Base(input), ".") {
			found = slices.DeleteFunc(found, func(path string) bool { return strings.HasPrefix(filepath.Base(path), ".") })
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("--input %s: no file matches this pattern", input)
		}
		slices.Sort(found)
		all = append(all, found...)
	}
	return all, nil
}

// filesIn returns the files of rows in a directory. Names that begin with a dot or an underscore are what writers note next to them. Anything else in it
// might be rows too, and is refused: they would be missing without a word.
func filesIn(directory string) ([]string, error) {
	entries, err := os.ReadDir(directory) // sorted
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), "_") {
			continue
		}
		path := filepath.Join(directory, e.Name())
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if _, err := rowfile.KindOf(path); err != nil || !info.Mode().IsRegular() {
			return nil, fmt.Errorf("--input %s holds %s, which is no file of rows: say which are, by a pattern such as '%s'", directory, e.Name(), filepath.Join(directory, "*.parquet"))
		}
		files = append(files, path)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("--input %s: the directory holds no files of rows", directory)
	}
	return files, nil
}

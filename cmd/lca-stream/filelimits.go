package main

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/source/format"
)

// A schema takes up to 70 times its text, in each partition that reads by it.
const leastSchema, mostSchema = 256 << 10, 4 << 20

// schemaBytes is how many bytes a schema may have, with all that it refers to.
func schemaBytes(c config.Memory) int { return int(min(max(limitOf(c)/1024, leastSchema), mostSchema)) }

// leastVersion is what a version may take at least.
const leastVersion = 32 << 20

// leastFileBatch is what a batch of a file may take at least: as much as a message on a topic.
const leastFileBatch = 64 << 20

// fileLimits bounds a batch of a file to half of what the process may take, because what is made of it takes as much again.
func fileLimits(c config.Memory, log *slog.Logger) format.FileConfig {
	return format.FileConfig{MaxBytes: max(memoryLimit(c, log)/2, leastFileBatch), Changed: func(column, how string, n int) {
		log.Warn(how, "column", column, "values", n)
	}}
}

// versionBytes is how many bytes of the snapshot topic a version may take: a quarter of what the process may, because it holds more of them, and the model.
func (s *Topics) versionBytes() int { return int(max(limitOf(s.config.Memory)/4, leastVersion)) }

// needs says which columns of a file are read: those that features are named after, or where none are named those that can be features without
// a name, which texts and bytes never are; and the columns of the other names.
func needs(features []string, others ...string) func(arrow.Field) bool {
	names := append(slices.Clone(others), features...)
	return func(f arrow.Field) bool {
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, f.Name) && name != "" }) {
			return true
		}
		return len(features) == 0 && !isText(f.Type)
	}
}

// isText reports whether values are texts or bytes.
func isText(t arrow.DataType) bool {
	if dict, ok := t.(*arrow.DictionaryType); ok {
		t = dict.ValueType
	}
	switch t.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.LARGE_BINARY, arrow.FIXED_SIZE_BINARY:
		return true
	}
	return false
}
